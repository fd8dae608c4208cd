"""The pages of a core in the test's loop, on a real port, and clients with a session."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from agentctx.config.access import AccessSettings
from agentctx.config.schema import ServerSettings
from agentctx.daemon.build import Core
from agentctx.daemon.page_server import PageServer
from agentctx.server.app import create_app
from agentctx.service.access.control import AccessControl
from agentctx.service.base import Peer
from agentctx_inspector.app import InspectorPages
from agentctx_inspector.browser_user import browser_of
from agentctx_inspector.page_access import BrowserOf
from agentctx_inspector.page_sessions import PageSessions
from tests.running_core import ME, running_core

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass(frozen=True)
class RunningPages:
    core: Core
    server: PageServer
    http: httpx.AsyncClient
    """A browser with a session."""
    port: int

    async def page(self, path: str) -> str:
        """Return the text of a page that must be there."""
        reply = await self.http.get(path)
        assert reply.status_code == 200, reply.text
        return reply.text

    async def send(self, path: str, /, **fields: str) -> httpx.Response:
        """Send a form of the page."""
        return await self.http.post(path, data=fields, headers={"Origin": f"http://127.0.0.1:{self.port}"})

    def browser(self) -> httpx.AsyncClient:
        """Return a browser without a session."""
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", verify=_NO_TLS, trust_env=False)


def _unknown(_: int, __: int) -> None:
    return None


@asynccontextmanager
async def running_pages(
    folder: Path,
    *,
    sessions: PageSessions | None = None,
    peer: Peer = ME,
    access: AccessSettings | None = None,
    owners: frozenset[int] | None = None,
    sleep: Callable[[float], Any] = asyncio.sleep,
    browser: BrowserOf = browser_of,
    **overrides: Any,
) -> AsyncIterator[RunningPages]:
    """Serve the pages of a new core, with the rights of `peer`. `overrides` are sections of the settings."""
    async with running_core(folder, None, access=access or AccessSettings(), **overrides) as core:
        settings = core.settings.value
        guard = core.guard(AccessControl(settings.access, owners=owners))
        api = create_app(core, guard, settings, core.telemetry)
        # Nobody but the user of the tests can connect here.
        known = browser if peer == ME else _unknown
        pages = InspectorPages(api, sessions or PageSessions(), known)
        server = PageServer(lambda: pages, ServerSettings(shutdown_timeout_s=1), sleep=sleep)
        serving = asyncio.create_task(server.serve())
        try:
            await server.started.wait()
            link = await server.link(peer)
            base = f"http://127.0.0.1:{link.port}"
            async with httpx.AsyncClient(base_url=base, verify=_NO_TLS, trust_env=False) as http:
                opened = await http.get(urlsplit(link.url).path)
                assert opened.status_code == 303
                yield RunningPages(core, server, http, link.port)
        finally:
            await server.stop()
            await serving
