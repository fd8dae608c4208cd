"""The port of the pages: opened for the first link, closed after an hour without use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from agentctx.config.entry_points import load_offered
from agentctx.config.schema import ServerSettings
from agentctx.daemon.build import Core
from agentctx.errors import ConfigInvalid
from agentctx.llm.proxy.serving import LOOPBACK, bind_loopback
from agentctx.server.http_server import HttpServer
from agentctx.server.request_context import RequestContext
from agentctx.service.base import Peer
from agentctx.telemetry import NO_TELEMETRY, Telemetry
from agentctx.wire import PageLink

log = structlog.get_logger("agentctx.daemon")
STOP_S: Final = 1.0
"""Seconds that running requests get at the end: streams of figures would never end by themselves."""


class OfferedPages(Protocol):
    """The pages: an ASGI application that keeps its own sessions."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def new_link(self, peer: Peer) -> str:
        """Return a path, good once, that begins a session in which requests are the peer's."""

    def idle_in(self) -> float:
        """Return the seconds until the last link and session end if they are not used; 0 without any."""


def page_server(core: Core, api: ASGIApp, settings: ServerSettings) -> PageServer:
    """Return the server of the pages, for the operation `open_page`."""

    def load() -> OfferedPages:
        name, package = "inspector", "agentctx-inspector"
        create: Callable[[ASGIApp], OfferedPages] = load_offered(
            "agentctx.pages", name, package=package, needed_by="`agentctx ui`", refusal=ConfigInvalid
        )
        return create(api)

    settings = settings.model_copy(update={"shutdown_timeout_s": STOP_S})
    core.pages.link = (server := PageServer(load, settings, core.telemetry)).link
    return server


@dataclass
class PageServer:
    """A server like `HttpServer`, but with a port only while there are links or sessions.

    `load` is called for the first link: pages that nobody opens cost nothing.
    """

    load: Callable[[], OfferedPages]
    settings: ServerSettings
    telemetry: Telemetry = NO_TELEMETRY
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _pages: OfferedPages | None = field(default=None, init=False)
    _open: tuple[HttpServer, int] | None = field(default=None, init=False)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    started: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def serve(self) -> None:
        """Serve whenever there are sessions, until `stop()`."""
        async with asyncio.TaskGroup() as self._tasks:
            self.started.set()
            await self._stopping.wait()
            await self._close()

    async def stop(self) -> None:
        """Serve no more. Idempotent."""
        self._stopping.set()
        await self._close()

    async def link(self, peer: Peer) -> PageLink:
        """Return a link for the peer, after opening a port if there is none."""
        async with self._opening:
            if self._pages is None:
                self._pages = await asyncio.to_thread(self.load)
            path = self._pages.new_link(peer)  # first, so that the port does not close meanwhile
            if self._open is None:
                await self._listen(self._pages)
            assert self._open is not None  # noqa: S101 - the line above
            return PageLink(url=f"http://{LOOPBACK}:{self._open[1]}{path}", port=self._open[1])

    async def _listen(self, pages: OfferedPages) -> None:
        listening = bind_loopback(0)
        server = HttpServer(RequestContext(pages, self.telemetry), [listening], self.settings)
        self._open = server, listening.getsockname()[1]
        serving = self._tasks.create_task(server.serve(), name="pages")
        closing = self._tasks.create_task(self._close_unused(pages), name="unused pages")
        serving.add_done_callback(lambda _: closing.cancel())
        await server.started.wait()
        log.info("pages_on_loopback", port=self._open[1])

    async def _close_unused(self, pages: OfferedPages) -> None:
        while left_s := pages.idle_in():
            await self.sleep(left_s)
        await self._close()

    async def _close(self) -> None:
        if self._open is not None:
            server, self._open = self._open[0], None
            await server.stop()


Server: TypeAlias = HttpServer | PageServer
