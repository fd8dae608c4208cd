"""HTTP/1.1 over the daemon's Unix socket on the event loop: one protocol per connection, kept when idle.

Between searches that scan megabytes, every layer runs with cold CPU caches, so this module has few layers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

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
from agentctx.errors import AgentctxError

_CHUNK = 65_536
"""Bytes per read."""


class AsyncUnixTransport:
    """Sends each request on an idle connection or a new one. Implements `transport.AsyncTransport`.

    `timeout_s` bounds the whole exchange.
    """

    def __init__(self, path: Path | str, timeout_s: float = TIMEOUT_S) -> None:
        self._path = Path(path)
        self._timeout_s = timeout_s
        self._idle: list[_Connection] = []
        self._closed = False

    async def request(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout_s: float | None = None,
    ) -> HttpReply:
        message = encode_request(method, target, body, headers)
        connection = self._idle_connection()
        if connection is None:
            sock = connect(self._path)
            watch = IdleWatch(sock)
            _, connection = await asyncio.get_running_loop().create_unix_connection(
                lambda: _Connection(self._path, watch), sock=sock
            )
        try:
            reply = await connection.exchange(message, self._timeout_s if timeout_s is None else timeout_s)
        except BaseException:
            connection.close()
            raise
        if connection.is_reusable and not self._closed and len(self._idle) < MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        return reply

    async def close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        await asyncio.gather(*(connection.ended.wait() for connection in idle))

    def _idle_connection(self) -> _Connection | None:
        """Return an idle connection that is still usable, closing any ended ones found first."""
        if self._closed:
            raise client_closed()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_quiet():
                return connection
            connection.close()
        return None


class _Connection(asyncio.BufferedProtocol):
    """A connection that carries one request at a time. It reads into one reused buffer, because asyncio would
    allocate 256 KiB for each read.
    """

    def __init__(self, path: Path, watch: IdleWatch) -> None:
        self.ended = asyncio.Event()
        self._path = path
        self._watch = watch
        self._parser = ReplyParser()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[HttpReply] | None = None
        self._buffer = memoryview(bytearray(_CHUNK))

    @property
    def is_reusable(self) -> bool:
        return self._parser.is_reusable and not self.ended.is_set()

    def is_quiet(self) -> bool:
        # The socket may have ended without the loop having noticed yet.
        return not self.ended.is_set() and self._watch.is_quiet()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream's; uvloop has a class of its own

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        self._fail(connection_dropped(self._path), exc)

    def get_buffer(self, _: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        try:
            reply = self._parser.feed(self._buffer[:nbytes])
        except MalformedReply as error:
            self._fail(connection_dropped(self._path), error)
            return
        if reply is not None and self._answer is not None and not self._answer.done():
            self._answer.set_result(reply)

    async def exchange(self, message: bytes, timeout_s: float) -> HttpReply:
        """Send a request and wait for its reply.

        Raises:
            ConnectionDropped: the connection ended first, or the peer sent something other than a reply.
            DeadlineExceeded: no reply within `timeout_s`.
        """
        self._answer = self._loop.create_future()
        alarm = self._loop.call_later(
            timeout_s, lambda: self._fail(deadline_exceeded(self._path, timeout_s), None)
        )
        try:
            if self.ended.is_set() or self._transport is None:
                raise connection_dropped(self._path)
            self._transport.write(message)
            return await self._answer
        finally:
            alarm.cancel()
            self._answer = None

    def close(self) -> None:
        """Close at once: a peer that does not read must not keep the rest of a request in memory."""
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: AgentctxError, cause: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            error.__cause__ = cause
            self._answer.set_exception(error)
            self._answer.exception()  # mark it as retrieved: the waiting caller may have just been cancelled
