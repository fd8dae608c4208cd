"""Sending a reply: whole, as a stream, or broken in a way that takes the connection to do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat

from starlette.types import Message, Receive, Scope, Send

from agentctx_testing.fake_provider.faults import Kind

TRANSPORT = "transport"
"""Key of the connection's transport in the request's state; `serving` puts it there."""
JSON = "application/json"

_ENDLESS = (b'{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.25', b",0.25" * 10_000)
_PAGE = b"<!doctype html><title>Sign in</title><p>Please sign in to the network.</p>"


@dataclass(frozen=True, kw_only=True)
class FakeReply:
    """The reply when nothing goes wrong: `pieces` for a stream, `body` otherwise."""

    status: int = 200
    body: bytes = b""
    pieces: tuple[bytes, ...] = ()
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    error_piece: bytes = b""
    """The piece with which a stream reports an error."""

    @property
    def whole(self) -> bytes:
        return b"".join(self.pieces) or self.body


class ReplyGate:
    """Holds slow replies until `release` is called or the client disconnects; there is no timeout."""

    def __init__(self) -> None:
        self._held: set[asyncio.Future[None]] = set()
        self._arrived = asyncio.Condition()

    async def hold(self, disconnected: asyncio.Future[None]) -> None:
        """Wait until released, or until `disconnected` is done."""
        released = asyncio.get_running_loop().create_future()
        self._held.add(released)
        async with self._arrived:
            self._arrived.notify_all()
        try:
            await asyncio.wait((released, disconnected), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._held.discard(released)

    def release(self) -> int:
        """Release the replies that wait now and return their number. Later replies wait again."""
        held, self._held = self._held, set()
        for future in held:
            future.set_result(None)
        return len(held)

    async def wait_until_held(self, count: int = 1) -> None:
        """Wait until `count` replies are held."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self._held) >= count)


@dataclass(frozen=True)
class ReplyDelivery:
    """An ASGI reply, sent as the fault `kind` demands. `on_abort` is called if the client leaves early."""

    reply: FakeReply
    gate: ReplyGate
    kind: Kind | None
    on_abort: Callable[[], Awaitable[None]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with _watch(receive) as disconnected:
            try:
                await self._send(_Wire(scope, send, disconnected))
            except _ClientDisconnected:
                await self.on_abort()

    async def _send(self, wire: _Wire) -> None:
        whole, pieces = self.reply.whole, self.reply.pieces
        first, second = whole[: len(whole) // 2], whole[len(whole) // 2 :]
        match self.kind:
            case "refuse":
                await wire.reset()
            case "reset":
                await wire.send(self._head(len(whole)))
                await wire.part(first)
                await wire.reset()
            case "slow_headers":
                await self.gate.hold(wire.disconnected)
                await self._send_parts(wire, pieces or (whole,), len(whole))
            case "slow_body":
                await wire.send(self._head(len(whole)))
                await wire.part(first)
                await self.gate.hold(wire.disconnected)
                await wire.part(second, more=False)
            case "slow_pieces":
                await self._send_parts(wire, pieces or (whole,), len(whole), is_held=True)
            case "endless_body":
                begin, more = (pieces[0], pieces[len(pieces) // 2]) if pieces else _ENDLESS
                await self._send_parts(wire, chain((begin,), repeat(more)), None)
            case "truncated_json":
                await self._send_parts(wire, (first,), len(first))
            case "stream_error" if pieces:
                await self._send_parts(
                    wire, (*pieces[: (len(pieces) + 1) // 2], self.reply.error_piece), None
                )
            case "wrong_content_type":
                await wire.send(self._head(len(_PAGE), "text/html; charset=utf-8"))
                await wire.part(_PAGE, more=False)
            case _:
                await self._send_parts(wire, pieces or (whole,), len(whole))

    async def _send_parts(
        self, wire: _Wire, parts: Iterable[bytes], length: int | None, *, is_held: bool = False
    ) -> None:
        await wire.send(self._head(length))
        for part in parts:
            if is_held:
                await self.gate.hold(wire.disconnected)
            await wire.part(part)
            await asyncio.sleep(0)  # a reader that keeps up must not starve the server's other connections
        await wire.part(b"", more=False)

    def _head(self, length: int | None, content_type: str | None = None) -> Message:
        """Return the start of the reply, which is chunked if it is a stream or has no `length`."""
        fields = {"content-type": content_type or self.reply.content_type, **self.reply.headers}
        if length is not None and not self.reply.pieces:
            fields["content-length"] = str(length)
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]
        return {"type": "http.response.start", "status": self.reply.status, "headers": raw}


class _ClientDisconnected(Exception):
    """The connection is gone."""


@dataclass(frozen=True)
class _Wire:
    scope: Scope
    send: Send
    disconnected: asyncio.Future[None]

    async def part(self, body: bytes, *, more: bool = True) -> None:
        """Send a part of the body. Raises `_ClientDisconnected`."""
        if self.disconnected.done():
            raise _ClientDisconnected
        await self.send({"type": "http.response.body", "body": body, "more_body": more})

    async def reset(self) -> None:
        """Send a TCP reset and return once the server has noticed that the connection is gone."""
        transport: asyncio.Transport = self.scope["state"][TRANSPORT]
        own = transport.get_extra_info("socket")
        with socket.socket(fileno=os.dup(own.fileno())) as same:
            # Closing with a linger time of 0 discards unsent data and sends a reset.
            same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
        await self.disconnected


@contextlib.asynccontextmanager
async def _watch(receive: Receive) -> AsyncIterator[asyncio.Future[None]]:
    """Provide a future that is done once the client has disconnected."""

    async def wait() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    disconnected = asyncio.ensure_future(wait())
    try:
        yield disconnected
    finally:
        disconnected.cancel()
        await asyncio.wait((disconnected,))
