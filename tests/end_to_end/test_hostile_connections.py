"""500 stalling connections to a real daemon: they cost little, are closed, and do not delay other clients."""

from __future__ import annotations

import os
import select
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentctx import Client
from tests.end_to_end.daemon_process import DaemonProcess

HOSTILE = 500
MOST_BYTES = 32 * 1024 * 1024
PATIENCE_S = 60.0
"""Far above the deadlines, so that a busy machine does not fail the test."""
CONFIG = """
[embedding]
provider = "fake"
[server]
header_timeout_s = 1.0
body_timeout_s = 1.0
keep_alive_s = 1.0
"""
_POST = b"POST /v1/search HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"
_HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
_LARGE = b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n"


@dataclass(frozen=True)
class Kind:
    """An attack: what it sends first and then repeatedly, and whether it reads the replies."""

    begins: bytes
    drips: bytes = b""
    reads: bool = True
    closes_half: bool = False


KINDS = {
    "silent": Kind(b""),
    "half a head": Kind(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Half: "),
    "half a body": Kind(_POST + b'{"query":"'),
    "half closed": Kind(_POST, closes_half=True),
    "never reading": Kind(_LARGE * 3, reads=False),
    "idle": Kind(_HEALTHZ),
    "dripping a head": Kind(b"GET /healthz HTTP/1.1\r\nHost: a\r\n", drips=b"X: a\r\n"),
    "dripping a body": Kind(_POST, drips=b" "),
    "dripping chunks": Kind(
        b"POST /v1/search HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", drips=b"1\r\n \r\n"
    ),
}


class Attackers:
    """Connections of one or several kinds, advanced by `step`."""

    def __init__(self, path: Path, kinds: list[Kind]) -> None:
        self._selector = selectors.DefaultSelector()
        for kind in kinds:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(PATIENCE_S)
            connection.connect(os.fspath(path))
            connection.setblocking(False)
            self._send(connection, kind.begins)
            if kind.closes_half:
                connection.shutdown(socket.SHUT_WR)
            self._selector.register(connection, selectors.EVENT_READ, kind)

    @property
    def open(self) -> int:
        return len(self._selector.get_map())

    def step(self) -> None:
        """Send the next bytes and notice closed connections. Without reading, check only for a hang-up."""
        for key in list(self._selector.get_map().values()):
            connection, kind = key.fileobj, key.data
            assert isinstance(connection, socket.socket)
            is_gone = not self._send(connection, kind.drips) if kind.drips else False
            if is_gone or (self._has_ended(connection) if kind.reads else _hung_up(connection)):
                self._selector.unregister(connection)
                connection.close()

    def all_closed(self) -> bool:
        """Return whether no connection is open any more, after a step."""
        self.step()
        return self.open == 0

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()

    @staticmethod
    def _send(connection: socket.socket, data: bytes) -> bool:
        try:
            connection.send(data)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    @staticmethod
    def _has_ended(connection: socket.socket) -> bool:
        try:
            return connection.recv(65_536) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


def _hung_up(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLHUP)
    return bool(poll.poll(0))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """Make the daemon load its lazy modules before the attacks."""
    running = DaemonProcess(tmp_path_factory.mktemp("hostile"), config=CONFIG).start()
    with running.client() as client:
        client.save_observation("s", "the first")
        warm = Attackers(running.socket, [KINDS["idle"], Kind(_LARGE)])
        _until(warm.all_closed, client)
    yield running
    assert running.stop() == 0
    assert not [line for line in running.log if line.get("level") in ("error", "critical")], running.log


@pytest.fixture
def client(daemon: DaemonProcess) -> Iterator[Client]:
    """A well-behaved client."""
    with daemon.client() as client:
        client.status()
        yield client


def descriptors(daemon: DaemonProcess) -> int:
    return len(os.listdir(f"/proc/{daemon.pid}/fd"))  # noqa: PTH208 - names are not needed


def resident(daemon: DaemonProcess) -> int:
    pages = Path(f"/proc/{daemon.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _until(is_so: Callable[[], bool], client: Client) -> int:
    """Send well-behaved requests until the condition is true; return how many were sent."""
    ends, asked = time.monotonic() + PATIENCE_S, 0
    while not is_so():
        assert time.monotonic() < ends, "the hostile connections are not closed"
        assert client.status().entries is not None
        asked += 1
    return asked


@pytest.mark.parametrize("name", [*(name for name in KINDS if name != "never reading"), "all"])
def test_hostile_connections_cost_little_and_are_closed(
    name: str, daemon: DaemonProcess, client: Client
) -> None:
    kinds = list(KINDS.values()) if name == "all" else [KINDS[name]]
    before, most = (resident(daemon), descriptors(daemon)), [0]
    with ExitStack() as stack:
        attackers = Attackers(daemon.socket, [kinds[number % len(kinds)] for number in range(HOSTILE)])
        stack.callback(attackers.close)

        def all_are_closed() -> bool:
            most[0] = max(most[0], resident(daemon))
            return attackers.all_closed()

        served = _until(all_are_closed, client)
    assert served > 0
    saved = client.save_observation("s", f"after {name}")
    assert client.get(saved.id).content == f"after {name}"
    _until(lambda: descriptors(daemon) <= before[1], client)
    grown = most[0] - before[0]
    assert grown < MOST_BYTES, f"{grown / 1024 / 1024:.1f} MiB"
