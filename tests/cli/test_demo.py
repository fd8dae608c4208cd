import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import typer

from agentctx.cli import demo_daemon
from agentctx.cli.app import run
from agentctx.cli.demo import run_demo
from agentctx.cli.demo_memories import MEMORIES
from tests.cli import stub_serve


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stub runs as a script and imports these tests."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


def stub_command(folder: Path, *flaw: str) -> list[str]:
    return [sys.executable, stub_serve.__file__, str(demo_daemon.socket_in(folder)), *flaw]


def test_every_step_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_demo(tmp_path, stub_command(tmp_path))

    out = capsys.readouterr().out
    assert re.findall(r"^(\d)\. ", out, re.MULTILINE) == list("12345678")
    assert all(name in out for name in MEMORIES)
    assert "nothing changed, still version 1" in out
    assert "“東京”" in out
    assert "9 left" in out
    assert "relevance 0.88  " in out
    assert "│ ## Semantic Context (RAG)" in out
    assert "SIGTERM  exit code 0" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("flaw", "problem"),
    [
        ("wrong-answer", "error: “lock_timeout” should find locked migration, but deploy-window came first."),
        ("buried", "error: 1 embeddings were buried"),
        ("no-model", "error: Search by meaning is unavailable: provider_failed: no room for it"),
        ("bad-exit", "error: The daemon ended with exit code 9 after SIGTERM."),
    ],
)
def test_a_failing_step_ends_the_demo_with_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flaw: str, problem: str
) -> None:
    with pytest.raises(typer.Exit) as caught:
        run_demo(tmp_path, stub_command(tmp_path, flaw))

    assert caught.value.exit_code == 1
    err = capsys.readouterr().err
    assert problem in err
    assert err.endswith("The end of the daemon's log:\nthe stub listens\n")
    assert not demo_daemon.socket_in(tmp_path).exists()


@pytest.mark.parametrize("keep", [False, True])
def test_the_folder_is_removed_unless_kept(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    keep: bool,
) -> None:
    # Such a short name leaves room for the path of a socket.
    folder = tmp_path_factory.mktemp("demo")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(demo_daemon, "serve_command", stub_command)

    assert run(["demo", *(["--keep"] if keep else [])]) == 0

    left = list(folder.iterdir())
    assert len(left) == int(keep)
    assert ("kept" if keep else "removed") in capsys.readouterr().out.splitlines()[-1]


def test_a_daemon_that_cannot_start_exits_1_with_its_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-c", "print('no room for me'); raise SystemExit(78)"]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(demo_daemon, "serve_command", lambda _: command)

    assert run(["demo"]) == 1

    captured = capsys.readouterr()
    assert "error: The daemon ended with exit code 78 before it was ready." in captured.err
    assert captured.err.endswith("no room for me\n")
    assert list(tmp_path.iterdir()) == []


ENDLESS_DAEMON = """
import os, signal, sys
with open(sys.argv[1], "w") as pipe:
    pipe.write(str(os.getpid()))
signal.pause()
"""
DEMO = """
import sys
from agentctx.cli import demo_daemon
from agentctx.cli.app import run
demo_daemon.serve_command = lambda _: [sys.executable, "-c", sys.argv[1], sys.argv[2]]
sys.exit(run(["demo"]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    pid_pipe, temporary = tmp_path / "pid", tmp_path / "temporary"
    os.mkfifo(pid_pipe)
    temporary.mkdir()
    command = [sys.executable, "-c", DEMO, ENDLESS_DAEMON, str(pid_pipe)]
    with subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL
    ) as demo:
        daemon = int(pid_pipe.read_text())
        demo.send_signal(number)
        assert demo.wait() == 128 + number
    assert list(temporary.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(daemon, 0)
