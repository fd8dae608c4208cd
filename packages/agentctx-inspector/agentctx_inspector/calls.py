"""Calls: what was put into LLM calls, what was left out and why, and what another question would get."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from agentctx import wire
from agentctx.client import by_key, calls
from agentctx.errors import AgentctxError, NotFound
from agentctx_inspector.daemon_api import DaemonApi
from agentctx_inspector.rendering import begun_page, page

MAX_CALLS: Final = 50
MAX_NAMED: Final = 40
"""Number of a receipt's memories that are looked up by name."""
WHY: Final[Mapping[str, str]] = {
    "injected": "in the block",
    "relevance": "too unlikely to answer the question",
    "twin": "about another thing of the same kind",
    "distance": "farther away than the question allows",
    "share": "its memory has better passages",
    "limit": "there were enough better passages",
    "stale": "changed in the meantime",
    "flagged": "resembles instructions",
    "present": "was in the conversation already",
    "duplicate": "repeats another passage",
    "cap": "the block had enough of its source",
    "budget": "the block was full",
    "refused": "the vendor refused the call with it",
}


class Calls:
    """The pages below `/calls`."""

    def __init__(self, api: DaemonApi) -> None:
        self._api = api

    async def show(self, request: Request) -> Response:
        return begun_page("calls.html", self._listed(request), title="Calls", here="Calls")

    async def _listed(self, request: Request) -> dict[str, Any]:
        listed = await self._api.ask(request, calls.injections(MAX_CALLS))
        return {"receipts": listed.injections, "why": WHY}

    async def receipt(self, request: Request) -> Response:
        return begun_page("receipt.html", self._receipt(request), here="Calls")

    async def _receipt(self, request: Request) -> dict[str, Any]:
        receipt = await self._api.ask(request, calls.injection(request.path_params["injection_id"]))
        ids = list(dict.fromkeys(each.entry for each in receipt.candidates))[:MAX_NAMED]
        entries = await asyncio.gather(*(self._entry(request, each) for each in ids))
        return {
            "receipt": receipt,
            "entries": dict(zip(ids, entries, strict=True)),
            "most_words": most_words(receipt.candidates),
            **await self._asking(request, receipt.question or "", next(iter(receipt.namespaces), "")),
        }

    async def ask(self, request: Request) -> Response:
        """Show what a question would get now; with a memory, why that would be in it or not."""
        values = self._values(request)
        if "fragment" in request.query_params:
            return page("answer.html", **await values)
        return begun_page("ask.html", values, title="Try a question", here="Calls")

    async def _values(self, request: Request) -> dict[str, Any]:
        given = {name: request.query_params.get(name, "").strip() for name in ("q", "namespace", "memory")}
        shown = await self._asking(request, **given)
        if given["q"]:
            try:
                shown |= await self._answers(request, given)
            except AgentctxError as error:  # said beside the question
                shown["problem"] = error
        return shown

    async def _asking(self, request: Request, q: str, namespace: str, memory: str = "") -> dict[str, Any]:
        """Return what the form of a question needs, with no answer yet."""
        counts = await self._api.ask(request, calls.namespaces())
        given = {"q": q, "namespace": namespace, "memory": memory}
        nothing = {"reply": None, "explained": None, "problem": None}
        return {"given": given, **nothing, "why": WHY, "namespaces": counts.namespaces}

    async def _answers(self, request: Request, given: Mapping[str, str]) -> dict[str, Any]:
        namespace = given["namespace"] or wire.DEFAULT_NAMESPACE
        reply = await self._api.ask(request, calls.context(given["q"], namespace=namespace))
        explained = None
        if given["memory"]:
            why_not = calls.why_not(given["memory"], given["q"], namespace=namespace)
            explained = await self._api.ask(request, why_not)
        return {"reply": reply, "explained": explained}

    async def _entry(self, request: Request, entry_id: str) -> wire.EntryView | None:
        with suppress(NotFound):
            return await self._api.ask(request, by_key.get(entry_id))
        return None


def most_words(candidates: Sequence[wire.InjectionCandidate]) -> float:
    """Return the highest keyword score, the end of the scale; 1 without one."""
    return max((each.word_score or 0.0 for each in candidates), default=0.0) or 1.0
