"""A real HTTP server on loopback, in the test's event loop, with scripted replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as the server received it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


def http(
    status: int,
    body: bytes,
    *,
    content_type: str = "application/json",
    length: int | None = None,
    **headers: str,
) -> bytes:
    """Return the bytes of a response that claims `length`; `_` in a header's name stands for `-`."""
    lines = [f"HTTP/1.1 {status} Whatever", f"content-type: {content_type}"]
    lines.append(f"content-length: {len(body) if length is None else length}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def replies(document: Any, status: int = 200, *, retry_after: str | None = None) -> bytes:
    hints = {} if retry_after is None else {"retry_after": retry_after}
    return http(status, json.dumps(document).encode(), content_type="application/json", length=None, **hints)


Answer: TypeAlias = Callable[[ReceivedRequest], bytes]


@dataclass
class Loopback:
    """`answer` may be changed at any time. A response shorter than it claims is cut off there."""

    answer: Answer
    received: list[ReceivedRequest] = field(default_factory=list)
    base_url: str = ""
    hangs: Callable[[ReceivedRequest], bool] = field(default=lambda _: False)
    """Selects requests that get no answer before `release`."""
    arrived: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    """Released once for each request that hangs."""
    release: asyncio.Event = field(default_factory=asyncio.Event)
    endless: bool = False
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await _receive(reader)
        self.received.append(request)
        if self.hangs(request):
            self.arrived.release()
            await self.release.wait()
        response = self.answer(request)
        writer.write(response)
        await writer.drain()
        while self.endless:
            writer.write(b" " * 65_536)
            await writer.drain()
        head, _, body = response.partition(b"\r\n\r\n")
        return f"content-length: {len(body)}\r\n".encode() in head + b"\r\n"


async def _receive(reader: asyncio.StreamReader) -> ReceivedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return ReceivedRequest(method, path, headers, json.loads(body) if body else None)


@asynccontextmanager
async def loopback(answer: Answer) -> AsyncIterator[Loopback]:
    server_state = Loopback(answer)
    server = await asyncio.start_server(server_state.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    server_state.base_url = f"http://{host}:{port}"
    try:
        yield server_state
    finally:
        server_state.release.set()
        server_state.endless = False
        server.close()
