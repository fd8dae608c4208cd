"""How a reply leaves: whole, or broken in a way that only the connection can break it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.types import Message, Receive, Scope, Send

from agentctx.fake_provider.faults import Kind
from agentctx.fake_provider.gate import Gate

TRANSPORT = "transport"
"""Key of the connection's transport in the request's state; `serving` puts it there."""

_ENDLESS_BEGIN = b'{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.25'
_ENDLESS_MORE = b",0.25" * 10_000
_PAGE = b"<!doctype html><title>Sign in</title><p>Please sign in to the network.</p>"


@dataclass(frozen=True)
class Delivery:
    """An ASGI reply: JSON `body` with `status`, delivered as the fault `kind` says."""

    status: int
    body: bytes
    gate: Gate
    headers: Mapping[str, str]
    kind: Kind | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with _watch(receive) as gone:
            await _WAYS.get(self.kind, _whole)(self, _Wire(scope, send, gone))

    def head(self, length: int | None, content_type: str = "application/json") -> Message:
        """The start of the reply; without a length it is chunked."""
        fields = {"content-type": content_type, **self.headers}
        if length is not None:
            fields["content-length"] = str(length)
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]
        return {"type": "http.response.start", "status": self.status, "headers": raw}

    @property
    def half(self) -> int:
        return len(self.body) // 2


@dataclass(frozen=True)
class _Wire:
    scope: Scope
    send: Send
    gone: asyncio.Future[None]

    async def part(self, body: bytes, *, more: bool) -> None:
        await self.send({"type": "http.response.body", "body": body, "more_body": more})

    async def reset(self) -> None:
        """Send a TCP reset, and return when the server has noticed that the connection is gone."""
        transport: asyncio.Transport = self.scope["state"][TRANSPORT]
        own = transport.get_extra_info("socket")
        with socket.socket(fileno=os.dup(own.fileno())) as same:
            # Closing with no time to linger drops what is unsent and resets.
            same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
        await self.gone


async def _whole(delivery: Delivery, wire: _Wire) -> None:
    await wire.send(delivery.head(len(delivery.body)))
    await wire.part(delivery.body, more=False)


async def _refuse(_: Delivery, wire: _Wire) -> None:
    await wire.reset()


async def _reset(delivery: Delivery, wire: _Wire) -> None:
    await wire.send(delivery.head(len(delivery.body)))
    await wire.part(delivery.body[: delivery.half], more=True)
    await wire.reset()


async def _slow_headers(delivery: Delivery, wire: _Wire) -> None:
    await delivery.gate.hold(wire.gone)
    await _whole(delivery, wire)


async def _slow_body(delivery: Delivery, wire: _Wire) -> None:
    await wire.send(delivery.head(len(delivery.body)))
    await wire.part(delivery.body[: delivery.half], more=True)
    await delivery.gate.hold(wire.gone)
    await wire.part(delivery.body[delivery.half :], more=False)


async def _endless_body(delivery: Delivery, wire: _Wire) -> None:
    await wire.send(delivery.head(None))
    await wire.part(_ENDLESS_BEGIN, more=True)
    while not wire.gone.done():
        await wire.part(_ENDLESS_MORE, more=True)
        await asyncio.sleep(0)  # a reader that keeps up must not starve the server's other connections


async def _truncated_json(delivery: Delivery, wire: _Wire) -> None:
    await wire.send(delivery.head(delivery.half))
    await wire.part(delivery.body[: delivery.half], more=False)


async def _wrong_content_type(delivery: Delivery, wire: _Wire) -> None:
    await wire.send(delivery.head(len(_PAGE), "text/html; charset=utf-8"))
    await wire.part(_PAGE, more=False)


_WAYS: Mapping[Kind | None, Callable[[Delivery, _Wire], Awaitable[None]]] = {
    "refuse": _refuse,
    "reset": _reset,
    "slow_headers": _slow_headers,
    "slow_body": _slow_body,
    "endless_body": _endless_body,
    "truncated_json": _truncated_json,
    "wrong_content_type": _wrong_content_type,
}


@contextlib.asynccontextmanager
async def _watch(receive: Receive) -> AsyncIterator[asyncio.Future[None]]:
    """A future that is done when the client has left."""

    async def wait() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    gone = asyncio.ensure_future(wait())
    try:
        yield gone
    finally:
        gone.cancel()
        await asyncio.wait((gone,))
