"""The list of memories: the newest, or those that answer a question."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from agentctx import wire
from agentctx.client import calls
from agentctx.errors import AgentctxError
from agentctx_inspector.daemon_api import DaemonApi
from agentctx_inspector.filters import MAX_LISTED, Filters, best, grouped, in_parts, newest
from agentctx_inspector.rendering import begun_page, page

ANSWERS: Final = 20
DONE: Final = {
    "forgotten": "The memory and all its versions are erased.",
}
_TIMELINES: Final = (("day", "Day"), ("session", "Session"), ("project", "Project"), ("agent", "Agent"))


class Memories:
    """The page `/`. With the parameter `fragment`, only what changes as one types."""

    def __init__(self, api: DaemonApi) -> None:
        self._api = api

    async def show(self, request: Request) -> Response:
        filters = Filters.of(request.query_params)
        values = self._values(request, filters)
        if "fragment" in request.query_params:
            return page("results.html", **await values)
        return begun_page("memories.html", values, title=filters.q or "Memories", here="Memories")

    async def _values(self, request: Request, filters: Filters) -> dict[str, Any]:
        counts = await self._api.ask(request, calls.namespaces())
        names = [filters.namespace] if filters.namespace else [each.namespace for each in counts.namespaces]
        problem: AgentctxError | None = None
        found: dict[str, Any] = {"entries": [], "next": "", "degraded": None}
        try:
            found = await self._found(request, filters, names[:MAX_LISTED])
        except AgentctxError as error:  # a filter that the daemon refuses is said beside the filters
            problem = error
        return {
            **found,
            "filters": filters,
            "groups": [] if filters.q else grouped(found["entries"], filters),
            "problem": problem,
            "timelines": _TIMELINES,
            "namespaces": counts.namespaces,
            "left_out": counts.more + max(0, len(names) - MAX_LISTED),
            "total": sum(each.entries for each in counts.namespaces),
            "collections": _with(wire.COLLECTIONS, filters.collection),
            "done": DONE.get(request.query_params.get("done", "")),
        }

    async def _found(self, request: Request, filters: Filters, names: list[str]) -> dict[str, Any]:
        if not filters.q:
            lists = [calls.list_entries(**filters.list_options(name)) for name in names]
            pages = await asyncio.gather(*(self._api.ask(request, each) for each in lists))
            entries, after = newest(pages)
            return {"entries": entries, "next": after and replace(filters, before=after), "degraded": None}
        parts = in_parts(names, wire.MAX_NAMESPACES)
        questions = [calls.search(filters.q, **filters.search_options(part, ANSWERS)) for part in parts]
        replies = await asyncio.gather(*(self._api.ask(request, each) for each in questions))
        degraded = next((each.degraded for each in replies if each.degraded), None)
        return {"entries": best(replies, ANSWERS), "next": "", "degraded": degraded}


def _with(known: tuple[str, ...], chosen: str) -> list[str]:
    return [*known, *([chosen] if chosen and chosen not in known else [])]
