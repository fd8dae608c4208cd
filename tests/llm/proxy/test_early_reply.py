"""A vendor that answers early, and connections that die between two calls."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from agentctx.errors import UpstreamFailed
from agentctx.llm.proxy.upstream import UpstreamRequest, Upstreams

LARGE = b"x" * 20_000_000
TOO_LARGE = b"HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo large"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def vendor(answer: Answer) -> AsyncIterator[Callable[[bytes], Awaitable[tuple[int, bytes]]]]:
    """Serve with `answer`; yield what sends a body to it through `Upstreams`."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    upstreams = Upstreams(urls={}, connect_timeout_s=5, read_timeout_s=20)

    async def sent(body: bytes) -> tuple[int, bytes]:
        request = UpstreamRequest(
            vendor="openai", base_url=address, method="POST", target=b"/v1", headers=[], body=body
        )
        async with upstreams.send(request) as reply:
            return reply.status_code, b"".join([piece async for piece in upstreams.pieces("openai", reply)])

    async with server:
        yield sent
        await upstreams.aclose()
        await asyncio.wait(tasks, timeout=10)


def reset(writer: asyncio.StreamWriter) -> None:
    found = writer.get_extra_info("socket")
    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@pytest.mark.parametrize("ending", ["closes", "stays open", "in two pieces"])
async def test_a_413_before_the_end_of_the_body_is_passed_on(ending: str) -> None:
    passed_on = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head, blank, text = TOO_LARGE.partition(b"\r\n\r\n")
        for piece in (head + blank, text) if ending == "in two pieces" else (TOO_LARGE,):
            writer.write(piece)
            await writer.drain()
        if ending == "stays open":
            await passed_on.wait()

    async with vendor(answer) as sent:
        async with asyncio.timeout(15):
            assert await sent(LARGE) == (413, b"too large")
        passed_on.set()


async def test_an_interim_or_early_success_does_not_end_the_body() -> None:
    received = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        received.append(len(await reader.readexactly(len(LARGE))))
        writer.write(OK)
        await writer.drain()

    async with vendor(answer) as sent:
        assert await sent(LARGE) == (200, b"{}")
    assert received == [len(LARGE)]


@pytest.mark.parametrize("ends", [reset, asyncio.StreamWriter.close])
@pytest.mark.parametrize("second", ["answers", "dies too"])
async def test_a_used_connection_that_dies_is_tried_once_more(
    ends: Callable[[asyncio.StreamWriter], None], second: str
) -> None:
    requests: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for served in range(2):
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(1)
            requests.append(served)
            if served == 1 or (second == "dies too" and len(requests) > 1):
                ends(writer)
                return
            writer.write(OK)
            await writer.drain()

    async with vendor(answer) as sent:
        assert await sent(b"1") == (200, b"{}")
        if second == "answers":
            assert await sent(b"2") == (200, b"{}")
        else:
            with pytest.raises(UpstreamFailed):
                await sent(b"2")
    assert requests == [0, 1, 0]


async def test_a_new_connection_that_dies_is_not_tried_again() -> None:
    requests = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))

    async with vendor(answer) as sent:
        with pytest.raises(UpstreamFailed):
            await sent(b"1")
    assert len(requests) == 1
