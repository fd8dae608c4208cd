"""HTTP/1.1 over the daemon's Unix socket on the event loop: one protocol a connection, kept when idle.

The parser is the one the daemon uses. Between a scan of megabytes and the next, every layer runs from cold
caches: this one has few.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from pathlib import Path

import httptools

from agentctx.client.transport import ConnectionDropped, Reply, refusal, too_slow
from agentctx.errors import DaemonUnreachable, InvalidInput


class AsyncUnixTransport:
    """Sends each request on an idle connection, or on a new one. For any number of tasks of one loop."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._idle: list[_Connection] = []
        self._closed = False

    async def request(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Reply:
        message = encode_request(method, target, body, headers)
        try:
            async with asyncio.timeout(self._timeout_s):
                connection = self._kept() or await self._connected()
                return await self._exchanged(connection, message)
        except TimeoutError as error:
            raise too_slow(self._path, self._timeout_s) from error

    async def close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        await asyncio.gather(*(connection.ended.wait() for connection in idle))

    def _kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.ended.is_set():
                return connection
        return None

    async def _connected(self) -> _Connection:
        if self._closed:
            raise DaemonUnreachable("The client is closed.", hint="Make a new one.")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # At once or not at all: asyncio would take a full backlog for a connection under way.
            sock.setblocking(False)
            sock.connect(str(self._path))
        except OSError as error:
            sock.close()
            raise refusal(self._path, error) from error
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_unix_connection(lambda: _Connection(self._path), sock=sock)
        return connection

    async def _exchanged(self, connection: _Connection, message: bytes) -> Reply:
        try:
            reply = await connection.exchange(message)
        except BaseException:
            connection.close()
            raise
        if connection.is_reusable and not self._closed:
            self._idle.append(connection)
        else:
            connection.close()
        return reply


def encode_request(method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
    """The bytes of a request.

    Raises:
        InvalidInput: a line break in a header would begin another one.
    """
    lines = [f"{method} {target} HTTP/1.1", "host: agentctx"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    if any("\r" in line or "\n" in line for line in lines):
        raise InvalidInput("A header or an address has a line break.")
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + (body or b"")


class _Connection(asyncio.Protocol):
    """One request at a time. Its parser calls the `on_…` methods."""

    def __init__(self, path: Path) -> None:
        self.ended = asyncio.Event()
        self.is_reusable = False
        self._path = path
        self._transport: asyncio.Transport | None = None
        self._begin()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the type checker; a stream has one
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        self._drop(exc)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._drop(error)
            self.close()

    async def exchange(self, message: bytes) -> Reply:
        """Send a request and wait for its answer. Raises `ConnectionDropped`."""
        self._begin()
        if self.ended.is_set() or self._transport is None:
            self._drop(None)
        else:
            self._transport.write(message)
        return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self.is_reusable = self._parser.should_keep_alive()
        if not self._answer.done():
            self._answer.set_result(
                Reply(self._parser.get_status_code(), self._headers, b"".join(self._body))
            )

    def _begin(self) -> None:
        self.is_reusable = False
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def _drop(self, cause: Exception | None) -> None:
        if not self._answer.done():
            dropped = ConnectionDropped(
                f"The daemon on {self._path} closed the connection without an answer."
            )
            dropped.__cause__ = cause
            self._answer.set_exception(dropped)
            self._answer.exception()  # seen: nobody may be waiting any more
