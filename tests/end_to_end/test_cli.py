"""The command line against a real daemon, as a user would use it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from agentctx.cli.app import run
from tests.end_to_end.daemon_process import DaemonProcess

FAKE = '[embedding]\nprovider = "fake"\n'


class Shell:
    """Runs commands; `ok` returns stdout, `fails` the exit code and stderr."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def ok(self, *args: str, stdin: str = "") -> str:
        self._monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(stdin.encode())))
        code = run(args)
        captured = self._capsys.readouterr()
        assert code == 0, captured.err
        return captured.out

    def json(self, *args: str) -> Any:
        return json.loads(self.ok(*args, "--json"))

    def fails(self, *args: str) -> tuple[int, str]:
        code = run(args)
        captured = self._capsys.readouterr()
        assert captured.out == ""
        return code, captured.err


@pytest.fixture
def daemon(make_daemon: Callable[..., DaemonProcess]) -> DaemonProcess:
    return make_daemon(config=FAKE).start()


@pytest.fixture
def shell(
    daemon: DaemonProcess,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Shell:
    monkeypatch.setenv("AGENTCTX_SOCKET", str(daemon.socket))
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    return Shell(capsys, monkeypatch)


def saved_id(shell: Shell, *args: str) -> str:
    return str(shell.json("save", *args)["id"])


def test_an_entry_is_edited_and_its_history_listed(shell: Shell) -> None:
    entry = saved_id(shell, "knowledge", "--key", "deploy", "Never on Friday.")
    assert shell.ok("edit", entry, "--content", "-", stdin="Never on Friday.\nAsk first.\n").startswith(
        "saved"
    )
    assert "+Ask first." in shell.ok("history", entry, "--diff").splitlines()
    code, complaint = shell.fails("edit", entry, "--content", "x", "--if-version", "1")
    assert code == 1
    assert "version" in complaint
    assert "Ask first." in shell.ok("get", entry)
    assert "version     1 (not live)" in shell.ok("get", entry, "--version", "1")


def test_entries_are_found_by_meaning_after_drain(shell: Shell) -> None:
    saved_id(shell, "knowledge", "--key", "k", "Deploys happen on Tuesdays.")
    assert shell.ok("queue", "drain", "--timeout", "60") == "pending  0\nburied   0\n"
    [hit] = shell.json("search", "Deploys happen on Tuesdays.")["results"]
    assert hit["distance"] is not None


def test_an_outcome_changes_the_confidence(shell: Shell) -> None:
    learning = saved_id(shell, "learning", "--trigger", "pip install", "--fix", "use the mirror")
    shell.ok("learning", "outcome", learning, "--success")
    attributes = shell.json("get", learning)["attributes"]
    assert attributes["successes"] == 1


def test_top_counts_operations(shell: Shell) -> None:
    saved_id(shell, "knowledge", "--key", "k", "text")
    shell.ok("search", "text")
    report = shell.json("top", "--interval", "0.1")
    status = report["status"]
    assert (status["activity"]["saved"], status["activity"]["asked"]) == (1, 1)
    assert report["rates"] is not None
    assert "provider  fake" in shell.ok("top", "--once", "--interval", "0.1")


def test_migrate_does_not_disturb_a_running_daemon(shell: Shell, daemon: DaemonProcess) -> None:
    folder = ("--data-dir", str(daemon.data_dir))
    code, complaint = shell.fails("migrate", *folder)
    assert code == 1
    assert f"pid {daemon.pid}" in complaint
    assert shell.ok("migrate", *folder, "--dry-run").startswith("up to date")
    daemon.stop()
    assert shell.ok("migrate", *folder).startswith("up to date")


def test_commands_exit_3_without_their_daemon(shell: Shell, daemon: DaemonProcess) -> None:
    daemon.stop()
    for args in (
        ("status",),
        ("edit", "x", "--content", "y"),
        ("history", "x"),
        ("queue", "drain"),
        ("top", "--once"),
        ("learning", "outcome", "x", "--failure"),
    ):
        code, complaint = shell.fails(*args)
        assert code == 3, args
        assert "`agentctx serve`" in complaint
    assert shell.ok("config", "check").startswith("ok")


def test_a_closed_pipe_ends_a_long_list(shell: Shell, daemon: DaemonProcess) -> None:
    text = "long " * 20_000
    for number in range(3):
        shell.ok("save", "knowledge", "--key", str(number), "-", stdin=text)
    command = f'set -o pipefail; "{sys.executable}" -m agentctx --socket {daemon.socket} list | head -1'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("UPDATED")
