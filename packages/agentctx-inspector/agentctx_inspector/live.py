"""A stream of the daemon's figures for the page that is in front."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agentctx import wire
from agentctx.client import calls
from agentctx.errors import AccessDenied, AgentctxError
from agentctx_inspector.daemon_api import DaemonApi

INTERVAL_S: Final = 2.0
COUNT_EVERY: Final = 5
"""Intervals between two counts for readers who may not see the figures: each reads their namespaces."""


class Live:
    """Server-sent events: the figures for those who may see them, and a sign of life for everyone."""

    def __init__(self, api: DaemonApi, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._api = api
        self._sleep = sleep

    async def stream(self, request: Request) -> Response:
        return StreamingResponse(self._events(request), media_type="text/event-stream")

    async def _events(self, request: Request) -> AsyncIterator[str]:
        for number in count():
            yield f"data: {json.dumps(await self._figures(request, number))}\n\n"
            await self._sleep(INTERVAL_S)

    async def _figures(self, request: Request, number: int) -> dict[str, Any]:
        try:
            with suppress(AccessDenied):  # the daemon's figures are for its admins
                return figures_of(await self._api.ask(request, calls.status()))
            return {} if number % COUNT_EVERY else await self._counted(request)
        except AgentctxError as error:
            return {"problem": error.message}

    async def _counted(self, request: Request) -> dict[str, Any]:
        counts = await self._api.ask(request, calls.namespaces())
        return {"memories": sum(each.entries for each in counts.namespaces)}


def figures_of(status: wire.StatusReply) -> dict[str, Any]:
    """Return the figures that move, by the name under which a page shows them."""
    activity = status.activity
    return {
        "memories": sum(status.entries.values()),
        "saved": activity.saved,
        "asked": activity.asked,
        "embedded": activity.embedded,
        "degraded": activity.degraded,
        "pending": status.queue.pending,
        "buried": status.queue.buried,
        "waiting": sum(each.waiting for each in status.captures),
        "uptime_s": status.uptime_seconds,
        "save_ms": activity.save and round(activity.save.p50_ms, 1),
        "ask_ms": activity.ask and round(activity.ask.p50_ms, 1),
        "embed_ms": activity.embed and round(activity.embed.p50_ms, 1),
    }
