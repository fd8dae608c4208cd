"""The port of the pages: there only while someone can use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from agentctx.config.schema import ServerSettings
from agentctx.daemon.page_server import PageServer
from agentctx.service.base import Peer
from tests.running_core import ME


class Pages:
    """Pages that end when the test says so. The server's `sleep` waits for that."""

    def __init__(self) -> None:
        self.left_s = 60.0
        self.peers: list[Peer] = []
        self.ended = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("pages")(scope, receive, send)

    def new_link(self, peer: Peer) -> str:
        self.peers.append(peer)
        return f"/open/{len(self.peers)}"

    def idle_in(self) -> float:
        return self.left_s

    async def sleep(self, _: float) -> None:
        await self.ended.wait()
        self.left_s = 0

    def end(self) -> None:
        self.ended.set()


@asynccontextmanager
async def serving(load: Callable[[], Any], sleep: Any) -> AsyncIterator[PageServer]:
    server = PageServer(load, ServerSettings(shutdown_timeout_s=1), sleep=sleep)
    task = asyncio.create_task(server.serve())
    try:
        await server.started.wait()
        yield server
    finally:
        await server.stop()
        await task


async def body_at(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    reply = await reader.read()
    writer.close()
    await writer.wait_closed()
    return reply


async def is_listening(port: int) -> bool:
    try:
        await body_at(port)
    except ConnectionRefusedError:
        return False
    return True


async def test_links_share_one_port_and_one_loading() -> None:
    pages, loaded = Pages(), []

    def load() -> Pages:
        loaded.append(1)
        return pages

    async with serving(load, pages.sleep) as server:
        assert loaded == []
        first, second = await asyncio.gather(server.link(ME), server.link(ME))
        assert [first.url, second.url] == [f"http://127.0.0.1:{first.port}/open/{each}" for each in (1, 2)]
        assert (await body_at(first.port)).endswith(b"pages")
    assert loaded == [1]
    assert pages.peers == [ME, ME]


async def test_the_port_closes_when_no_session_is_left_and_the_next_link_opens_another() -> None:
    pages = Pages()
    async with serving(lambda: pages, pages.sleep) as server:
        port = (await server.link(ME)).port
        pages.end()
        is_open = True
        while is_open:
            with suppress(ConnectionResetError):  # it is closing
                is_open = await is_listening(port)
        pages.left_s, pages.ended = 60.0, asyncio.Event()
        again = await server.link(ME)
        assert (await body_at(again.port)).endswith(b"pages")


async def test_no_port_outlives_the_daemon() -> None:
    pages = Pages()
    async with serving(lambda: pages, pages.sleep) as server:
        port = (await server.link(ME)).port
    assert not await is_listening(port)
