"""The routes of the pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from agentctx.errors import AgentctxError
from agentctx.server.errors import STATUS
from agentctx.service.base import Peer
from agentctx_inspector.browser_user import browser_of
from agentctx_inspector.calls import Calls
from agentctx_inspector.daemon_api import DaemonApi
from agentctx_inspector.health import HealthPage
from agentctx_inspector.ingest import Ingest
from agentctx_inspector.live import Live
from agentctx_inspector.memories import Memories
from agentctx_inspector.memory import Memory
from agentctx_inspector.namespaces import Namespaces
from agentctx_inspector.page_access import OPEN, BrowserOf, PageAccess
from agentctx_inspector.page_sessions import PageSessions
from agentctx_inspector.rendering import page
from agentctx_inspector.review import Review

Show: TypeAlias = Callable[[Request], Awaitable[Response]]
_STATIC: Final = Path(__file__).parent / "static"


def create_pages(api: ASGIApp) -> InspectorPages:
    """Return the pages over the daemon's API: the entry point `inspector` of the group `agentctx.pages`."""
    return InspectorPages(api, PageSessions())


class InspectorPages:
    """An ASGI application that admits browsers with a session."""

    def __init__(self, api: ASGIApp, sessions: PageSessions, browser: BrowserOf = browser_of) -> None:
        self._sessions = sessions
        self._router = Router(_routes(DaemonApi(api)), redirect_slashes=False)
        self._access = PageAccess(self._answer, self._sessions, browser)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._access(scope, receive, send)

    def new_link(self, peer: Peer) -> str:
        """Return the path of a link that begins a session of the peer, once and within a minute."""
        return OPEN + self._sessions.new_link(peer)

    def idle_in(self) -> float:
        """Return the seconds until the last session ends unless it is used."""
        return self._sessions.idle_in()

    @property
    def paths(self) -> list[str]:
        """The paths that a browser can read, with their parameters in braces."""
        routes = [each for each in self._router.routes if isinstance(each, Route)]
        return [each.path for each in routes if "GET" in (each.methods or ())]

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._router(scope, receive, send)
        except HTTPException as error:
            await page("error.html", error.status_code, title=error.detail, hint="")(scope, receive, send)
        except AgentctxError as error:
            status = STATUS.get(error.code, 500)
            await page("error.html", status, title=error.message, hint=error.hint)(scope, receive, send)


def _routes(api: DaemonApi) -> list[Route | Mount]:
    memories, memory, receipts, health, live, review = (
        Memories(api),
        Memory(api),
        Calls(api),
        HealthPage(api),
        Live(api),
        Review(api),
    )
    namespaces, ingest = Namespaces(api), Ingest(api)
    return [
        Route("/", memories.show),
        Route("/memory/{entry_id}", memory.show),
        Route("/memory/{entry_id}/uses", memory.uses),
        Route("/memory/{entry_id}/edit", memory.edit, methods=["POST"]),
        Route("/memory/{entry_id}/forget", memory.forget, methods=["POST"]),
        Route("/memory/{entry_id}/restore", memory.restore, methods=["POST"]),
        Route("/memory/{entry_id}/release", memory.release, methods=["POST"]),
        Route("/memory/{entry_id}/supersede", memory.supersede, methods=["POST"]),
        Route("/calls", receipts.show),
        Route("/calls/ask", receipts.ask),
        Route("/calls/{injection_id}", receipts.receipt),
        Route("/review", review.show),
        Route("/review/mode", review.set_mode, methods=["POST"]),
        Route("/review/{entry_id}", review.one),
        Route("/review/{entry_id}/{decision}", review.decide, methods=["POST"]),
        Route("/health", health.show),
        Route("/health/examine", health.examine, methods=["POST"]),
        Route("/health/repair", health.repair, methods=["POST"]),
        Route("/health/retry", health.retry, methods=["POST"]),
        Route("/namespaces", namespaces.show),
        Route("/namespaces/forget", namespaces.confirm),
        Route("/namespaces/forget", namespaces.forget, methods=["POST"]),
        Route("/ingest", ingest.show),
        Route("/ingest/counts", ingest.counts),
        Route("/ingest/forget", ingest.confirm),
        Route("/ingest/forget", ingest.forget, methods=["POST"]),
        Route("/live", live.stream),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]
