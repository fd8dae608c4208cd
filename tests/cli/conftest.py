from collections.abc import Callable, Iterator
from pathlib import Path

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


@pytest.fixture
def agentctx(daemon: StubDaemon) -> Callable[..., int]:
    """Run a command against the stub; return the exit code."""
    return lambda *args: run(["--socket", str(daemon.socket), *args])
