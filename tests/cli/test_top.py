import os
import select
import signal
import termios
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentctx.cli import top
from tests.cli.conftest import Agentctx
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.cli.test_top_view import later
from tests.client.stub_daemon import StubDaemon, status_reply

STATUS = ("GET", "/v1/status")


@pytest.fixture
def busy(daemon: StubDaemon) -> StubDaemon:
    first = status_reply()
    daemon.answer(*STATUS, (200, first), (200, later(first, 2.0, saved=10)))
    return daemon


def test_a_snapshot_without_a_daemon_exits_3(tmp_path: Path, agentctx: Agentctx) -> None:
    assert agentctx("--socket", str(tmp_path / "none"), "top", "--once") == 3


def test_the_live_view_on_a_terminal_ends_with_q(busy: StubDaemon) -> None:
    with PseudoTerminal(["--socket", str(busy.socket), "top", "--interval", "0.1"]) as terminal:
        assert "saves               -" in terminal.read_until("q quits")
        assert "saves             5.0" in terminal.read_until("5.0")
        terminal.press("q")
        code, output = terminal.finish()
    assert code == 0
    assert output.endswith("\x1b[?1049l")


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGHUP, 128 + signal.SIGHUP)],
)
def test_a_signal_restores_the_terminal(busy: StubDaemon, number: int, code: int) -> None:
    with PseudoTerminal(["--socket", str(busy.socket), "top", "--interval", "5"]) as terminal:
        terminal.read_until("q quits")
        os.kill(terminal.process.pid, number)
        ended, output = terminal.finish()
        modes = terminal.present_modes()
    assert ended == code
    assert output.endswith("\x1b[?1049l")
    assert modes[3] & termios.ICANON
    assert modes[3] & termios.ECHO


def test_top_waits_for_a_missing_daemon(tmp_path: Path) -> None:
    socket = tmp_path / "late.sock"
    with PseudoTerminal(["--socket", str(socket), "top", "--interval", "0.1"], columns=200) as terminal:
        assert "Trying again." in terminal.read_until("q quits")
        stub = StubDaemon(socket)
        stub.answer(*STATUS, (200, replace(status_reply(), version="9.9.9")))
        with stub.running():
            terminal.read_until("agentctx 9.9.9")
        socket.unlink(missing_ok=True)
        terminal.read_until("what follows is what was seen last")
        terminal.press("q")
        assert terminal.finish()[0] == 0


def test_a_signal_just_before_the_wait_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    waited_for: list[list[int]] = []

    def late(keys: list[int], writable: Any, failed: Any, _: float) -> tuple[list[int], list[int], list[int]]:
        """A signal arrives after Python's last check for signals: the wait must still end."""
        signal.raise_signal(signal.SIGUSR1)
        ready = select.select(keys, writable, failed, 0)
        waited_for.append(ready[0])
        return ready

    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with top.read_keys() as wait:
            monkeypatch.setattr(top, "select", SimpleNamespace(select=late))
            assert wait(3_600) == ""
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert waited_for[0]
