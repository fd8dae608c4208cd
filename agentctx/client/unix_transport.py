"""HTTP/1.1 over the daemon's Unix socket, blocking: for programs without an event loop."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from agentctx.client.http1 import MalformedReply, ReplyParser, encode_request
from agentctx.client.transport import (
    MAX_IDLE,
    TIMEOUT_S,
    HttpReply,
    IdleWatch,
    client_closed,
    connect,
    connection_dropped,
    deadline_exceeded,
)

_CHUNK = 65_536
"""Bytes per read."""


class UnixTransport:
    """Sends each request on an idle connection or a new one. Implements `transport.Transport`.

    `timeout_s` bounds the whole exchange. After a fork, the child opens its own connections.
    """

    def __init__(self, path: Path | str, timeout_s: float = TIMEOUT_S) -> None:
        self._path = Path(path)
        self._timeout_s = timeout_s
        self._idle: list[_Connection] = []
        self._owner = os.getpid()
        self._closed = False
        self._lock = Lock()

    def request(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout_s: float | None = None,
    ) -> HttpReply:
        message = encode_request(method, target, body, headers)
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + timeout_s
        connection = self._idle_connection() or _Connection(self._path)
        try:
            reply = connection.exchange(message, deadline)
        except TimeoutError as error:
            connection.close()
            raise deadline_exceeded(self._path, timeout_s) from error
        except BaseException:
            connection.close()
            raise
        self._keep(connection)
        return reply

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _idle_connection(self) -> _Connection | None:
        """Return an idle connection that is still usable, closing any ended ones found first."""
        while (connection := self._take_idle()) is not None:
            if connection.watch.is_quiet():
                return connection
            connection.close()
        return None

    def _take_idle(self) -> _Connection | None:
        with self._lock:
            if self._closed:
                raise client_closed()
            if self._owner != os.getpid():
                # The parent goes on using the same sockets: closing our copies does not end its connections.
                for connection in self._idle:
                    connection.close()
                self._idle = []
                self._owner = os.getpid()
            return self._idle.pop() if self._idle else None

    def _keep(self, connection: _Connection) -> None:
        with self._lock:
            if connection.is_reusable and not self._closed and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()


class _Connection:
    """A connection that carries one request at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket = connect(path)
        self.watch = IdleWatch(self._socket)
        self._parser = ReplyParser()

    @property
    def is_reusable(self) -> bool:
        return self._parser.is_reusable

    def exchange(self, message: bytes, deadline: float) -> HttpReply:
        """Send a request and wait for its reply until `deadline` on the monotonic clock.

        Raises:
            ConnectionDropped: the connection ended first, or the peer sent something other than a reply.
            TimeoutError: no reply before the deadline.
        """
        try:
            self._send(message, deadline)
            return self._receive(deadline)
        except TimeoutError:
            raise
        except (OSError, MalformedReply) as error:
            raise connection_dropped(self._path) from error

    def close(self) -> None:
        self._socket.close()

    def _send(self, message: bytes, deadline: float) -> None:
        self._socket.settimeout(_remaining_s(deadline))
        try:
            self._socket.sendall(message)
        except (BrokenPipeError, ConnectionResetError):
            # A daemon that refuses a body stops reading it; its reply, which says why, is waiting to be read.
            return

    def _receive(self, deadline: float) -> HttpReply:
        while True:
            self._socket.settimeout(_remaining_s(deadline))
            data = self._socket.recv(_CHUNK)
            if not data:
                raise connection_dropped(self._path)
            if (reply := self._parser.feed(data)) is not None:
                return reply


def _remaining_s(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
