from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from agentctx_inspector import browser_user
from agentctx_inspector.browser_user import NOBODY, asked, browser_of, listed

ON_LINUX = pytest.mark.skipif(not hasattr(socket, "AF_NETLINK"), reason="only Linux tells")


@ON_LINUX
@pytest.mark.parametrize("way", [asked, listed, browser_of])
def test_the_kernel_tells_whose_browser_has_connected(way: Callable[[int, int], int | None]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert way(client.getsockname()[1], port) == os.getuid()
            assert way(client.getsockname()[1], port + 1) == NOBODY


@ON_LINUX
@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_another_user_is_told_from_ours() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        reading, writing = os.pipe()
        ended, ending = os.pipe()
        if (child := os.fork()) == 0:
            os.setuid(54_321)
            with socket.create_connection(("127.0.0.1", port)) as client:
                os.write(writing, str(client.getsockname()[1]).encode())
                os.read(ended, 1)
            os._exit(0)
        client_port = int(os.read(reading, 16))
        assert browser_of(client_port, port) == 54_321
        os.write(ending, b"x")
        os.waitpid(child, 0)
        for each in (reading, writing, ended, ending):
            os.close(each)


def test_without_netlink_the_list_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> int:
        raise OSError

    monkeypatch.setattr(browser_user, "asked", refuse)
    monkeypatch.setattr(browser_user, "listed", lambda *_: 1001)
    monkeypatch.setattr(socket, "AF_NETLINK", 16, raising=False)
    assert browser_of(5000, 4321) == 1001


def test_a_row_is_not_taken_for_another(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    row = "   {}: 0100007F:{:04X} 0100007F:10E1 01 00000000:00000000 00:00000000 00000000  {}        0 1 1\n"
    table.write_text("  sl  local_address\n" + row.format(0, 5000, 1001) + row.format(1, 5001, 1002))
    assert [listed(client, 4321, table) for client in (5000, 5001, 5002)] == [1001, 1002, NOBODY]
    assert listed(5000, 4321, tmp_path / "missing") is None
