import os
import socket
from pathlib import Path

import pytest

from agentctx.client.transport import MAX_IDLE, BacklogFull
from agentctx.client.unix_transport import UnixTransport
from tests.client.stub_daemon import StubDaemon


def test_a_forked_child_opens_its_own_connections(
    daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answer("GET", "/a", (200, {}))
    transport = UnixTransport(daemon.socket)
    transport.request("GET", "/a", None, {})

    monkeypatch.setattr(os, "getpid", lambda: -1)
    transport.request("GET", "/a", None, {})
    transport.request("GET", "/a", None, {})
    transport.close()

    assert len(daemon.connections) == 2


def test_a_full_backlog_fails_immediately(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(MAX_IDLE)]
        try:
            with pytest.raises(BacklogFull):
                _fill(waiting, path)
        finally:
            for each in waiting:
                each.close()


def _fill(sockets: list[socket.socket], path: Path) -> None:
    """Connect until the backlog is full, then send a request."""
    for each in sockets:
        each.setblocking(False)
        try:
            each.connect(str(path))
        except BlockingIOError:
            break
    UnixTransport(path).request("GET", "/a", None, {})
