"""A stream of the daemon's figures for the page that is in front."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agentctx import wire
from agentctx.client import calls
from agentctx.errors import AccessDenied, AgentctxError
from agentctx_inspector.daemon_api import DaemonApi

INTERVAL_S: Final = 2.0


class Live:
    """Server-sent events: the figures for those who may see them, and a sign of life for everyone."""

    def __init__(self, api: DaemonApi, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._api = api
        self._sleep = sleep

    async def stream(self, request: Request) -> Response:
        return StreamingResponse(self._events(request), media_type="text/event-stream")

    async def _events(self, request: Request) -> AsyncIterator[str]:
        while True:
            yield f"data: {json.dumps(await self._figures(request))}\n\n"
            await self._sleep(INTERVAL_S)

    async def _figures(self, request: Request) -> dict[str, Any]:
        try:
            return figures_of(await self._api.ask(request, calls.status()))
        except AccessDenied:  # the daemon's figures are for its admins
            return {}
        except AgentctxError as error:
            return {"problem": error.message}


def figures_of(status: wire.StatusReply) -> dict[str, Any]:
    """Return the figures that move, by the name under which a page shows them."""
    activity = status.activity
    return {
        "saved": activity.saved,
        "asked": activity.asked,
        "embedded": activity.embedded,
        "degraded": activity.degraded,
        "pending": status.queue.pending,
        "buried": status.queue.buried,
        "uptime_s": status.uptime_seconds,
        "save_ms": activity.save and round(activity.save.p50_ms, 1),
        "ask_ms": activity.ask and round(activity.ask.p50_ms, 1),
        "embed_ms": activity.embed and round(activity.embed.p50_ms, 1),
    }
