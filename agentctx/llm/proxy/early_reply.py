"""Hear a vendor that answers before it has read the whole request, such as 413 to a large body.

httpx sends a whole body before it reads, so such an answer would be lost when the vendor closes. This uses
the network backend of a pool of `httpcore`, which httpx does not expose.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import httpcore
import httpx

_PIECE: Final = 64 * 1024
_STATUS_AT: Final = len(b"HTTP/1.1 ")


def listen_while_sending(transport: httpx.AsyncHTTPTransport) -> None:
    """Make the transport stop sending a body once the answer is a refusal. Call it before any request."""
    pool: Any = transport._pool  # noqa: SLF001
    pool._network_backend = _Backend(pool._network_backend)  # noqa: SLF001


class _Backend(httpcore.AsyncNetworkBackend):
    def __init__(self, backend: httpcore.AsyncNetworkBackend) -> None:
        self._backend = backend
        self.sleep = backend.sleep  # type: ignore[method-assign]

    async def connect_tcp(self, *args: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._backend.connect_tcp(*args, **options))


class _Stream(httpcore.AsyncNetworkStream):
    """A connection that reads while a large buffer is written; what it reads is kept for the next `read`."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._early = b""
        self.aclose = stream.aclose  # type: ignore[method-assign]
        self.get_extra_info = stream.get_extra_info  # type: ignore[method-assign]

    async def start_tls(self, *args: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._stream.start_tls(*args, **options))

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        early, self._early = self._early[:max_bytes], self._early[max_bytes:]
        return early or await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if len(buffer) <= _PIECE:
            await self._stream.write(buffer, timeout)
            return
        reading = asyncio.ensure_future(self._stream.read(_PIECE))
        writing = asyncio.ensure_future(self._write_pieces(buffer, timeout))
        try:
            await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done() and not reading.exception() and _refuses(reading.result()):
                # `httpcore` goes on to read the answer.
                raise httpcore.WriteError("the answer came before the end of the request")
            await writing
        finally:
            reading.cancel()
            writing.cancel()
            await asyncio.wait({reading, writing})
            if not reading.cancelled() and not reading.exception():
                self._early = reading.result()

    async def _write_pieces(self, buffer: bytes, timeout: float | None) -> None:
        for start in range(0, len(buffer), _PIECE):
            await self._stream.write(buffer[start : start + _PIECE], timeout)


def _refuses(early: bytes) -> bool:
    """Return whether the rest of the request is of no use: to a redirect, an error or a closed connection."""
    return early[_STATUS_AT : _STATUS_AT + 1] in b"345"
