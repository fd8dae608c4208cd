"""The handler as agents start it, with a real daemon, none, or one that never answers."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.daemon_process import DaemonProcess
from tests.mcp.bridge_process import stripped_environment

pytestmark = pytest.mark.process


def hook(tmp_path: Path, event: str, payload: object, *args: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "agentctx", "hook", event, *args],
        input=payload if isinstance(payload, bytes) else json.dumps(payload).encode(),
        capture_output=True,
        env=stripped_environment(tmp_path),
        cwd=tmp_path,
        timeout=60,
        check=False,
    )


def context_of(done: subprocess.CompletedProcess[bytes]) -> str:
    assert (done.returncode, done.stderr) == (0, b"")
    answer: dict[str, Any] = json.loads(done.stdout)
    return str(answer["hookSpecificOutput"]["additionalContext"])


def test_the_session_begins_with_the_projects_knowledge(daemon: DaemonProcess, tmp_path: Path) -> None:
    at = ("--client", "claude-code", "--socket", str(daemon.socket))
    assert hook(tmp_path, "SessionStart", {"cwd": str(tmp_path)}, *at).stdout == b""
    with daemon.client() as client:
        client.save_knowledge("deploys", "We deploy on Tuesdays: project rules.", category="rule")
        client.save_knowledge("other", "Another project's rules.", namespace="other")
    block = context_of(hook(tmp_path, "SessionStart", {"cwd": str(tmp_path)}, *at))
    assert "> We deploy on Tuesdays" in block
    assert "Another" not in block


def test_a_turn_is_saved_with_remember_alone(daemon: DaemonProcess, tmp_path: Path) -> None:
    payload = {"session_id": "s1", "last_assistant_message": "The staging database is restored every Monday."}
    at = ("--client", "codex", "--socket", str(daemon.socket))
    for extra, saved in ([], 0), (["--remember"], 1):
        done = hook(tmp_path, "Stop", payload, *at, *extra)
        assert (done.returncode, json.loads(done.stdout)) == (0, {})
        with daemon.client() as client:
            assert len(client.list(collections=["observation"]).entries) == saved


@pytest.mark.parametrize("payload", [b"", b"not json", b"[]", b'{"prompt": "How do we deploy?"}'])
def test_without_a_daemon_there_is_silence(tmp_path: Path, payload: bytes) -> None:
    at = ("--client", "codex", "--socket", str(tmp_path / "none"))
    done = hook(tmp_path, "UserPromptSubmit", payload, *at)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_daemon_that_never_answers_is_silence_too(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        at = ("--client", "codex", "--socket", str(path))
        done = hook(tmp_path, "UserPromptSubmit", {"prompt": "How do we deploy?"}, *at)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_stdin_that_stays_open_is_not_waited_for(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agentctx", "hook", "UserPromptSubmit", "--client", "codex"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=stripped_environment(tmp_path)) as process:
        assert process.wait(60) == 0


def test_a_wrong_command_line_never_blocks_the_prompt(tmp_path: Path) -> None:
    done = hook(tmp_path, "UserPromptSubmit", {}, "--client", "nobody")
    assert done.returncode == 1
    assert b"--client" in done.stderr
