import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctx.cli.app import run
from tests.client.stub_daemon import StubDaemon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[StubDaemon]:
    with StubDaemon(tmp_path / "s").running() as stub:
        yield stub


@pytest.fixture(autouse=True)
def hide_the_users_daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands without a socket must not find the socket of the user who runs the tests."""
    monkeypatch.setenv("AGENTCTX_SOCKET", str(tmp_path / "unnamed.sock"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


class Agentctx:
    """Runs commands against the stub. `out` and `err` are what the last one printed."""

    def __init__(self, socket: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.out = self.err = ""
        self._socket = socket
        self._capsys = capsys

    def __call__(self, *args: str) -> int:
        """Run a command and return the exit code."""
        self._capsys.readouterr()
        try:
            return run(["--socket", str(self._socket), *args])
        finally:
            self.out, self.err = self._capsys.readouterr()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def agentctx(daemon: StubDaemon, capsys: pytest.CaptureFixture[str]) -> Agentctx:
    return Agentctx(daemon.socket, capsys)
