"""The files that `agentctx ingest` has read: how many, in which state, and what became of each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agentctx.client import by_key, calls
from agentctx.errors import AccessDenied, AgentctxError, NotFound
from agentctx.wire import EntryView
from agentctx_inspector.daemon_api import DaemonApi
from agentctx_inspector.filters import MAX_LISTED, newest
from agentctx_inspector.ingested_files import (
    FileCount,
    FileFilters,
    IngestedFile,
    by_folder,
    count_of,
    files_of,
    visible,
)
from agentctx_inspector.memory_form import form_of
from agentctx_inspector.rendering import begun_page, page, query

LISTED_AT_ONCE: Final = 1_000
MAX_COUNTED: Final = 2_000
"""Number of entries that are counted in a namespace."""
MAX_COUNTED_IN_ALL: Final = 5_000
MAX_FORGOTTEN: Final = 100
"""Number of entries that the form erases: each is a request, and users have quotas."""


class Ingest:
    """The pages below `/ingest`."""

    def __init__(self, api: DaemonApi) -> None:
        self._api = api

    async def show(self, request: Request) -> Response:
        return begun_page("ingest.html", self._values(request), title="Ingest", here="Ingest")

    async def counts(self, request: Request) -> Response:
        """Count files and what of them waits; with the parameter `fragment`, only the table."""
        values = self._counted(request, FileFilters.of(request.query_params))
        if "fragment" in request.query_params:
            return page("ingest_counts.html", **await values)
        return begun_page("ingest_counts_page.html", values, title="Files by namespace", here="Ingest")

    async def confirm(self, request: Request) -> Response:
        """Say what would be erased."""
        values = self._withdrawn(request, FileFilters.of(request.query_params))
        return begun_page("forget_files.html", values, title="Erase withdrawn files", here="Ingest")

    async def forget(self, request: Request) -> Response:
        """Erase what was shown and is withdrawn still: a file that has come back in the meantime stays."""
        form = form_of(await request.body())
        filters = FileFilters(namespace=form.get("namespace", ""), path=form.get("path", ""))
        withdrawn = await self._withdrawn(request, filters)
        shown = form.get("shown", "").split()
        erased = [each for each in withdrawn["entries"] if each.id in shown]
        for entry in erased:
            with suppress(NotFound):  # it was forgotten elsewhere
                await self._api.ask(request, by_key.forget(entry.id))
        done = {"namespace": filters.namespace, "state": "marked", "forgotten": len(erased)}
        return RedirectResponse(f"/ingest{query(done)}", 303)

    async def _values(self, request: Request) -> dict[str, Any]:
        filters = FileFilters.of(request.query_params)
        namespaces, names = await self._names(request, filters)
        problem: AgentctxError | None = None
        files, after = list[IngestedFile](), ""
        try:
            files, after = await self._listed(request, filters, names[:MAX_LISTED])
        except AgentctxError as error:  # a filter that the daemon refuses is said beside the filters
            problem = error
        forgotten = request.query_params.get("forgotten", "")
        return {
            "filters": filters,
            "folders": by_folder(files),
            "visible": visible,
            "next": filters.address(before=after) if after else "",
            "problem": problem,
            "namespaces": namespaces,
            "left_out": max(0, len(names) - MAX_LISTED),
            "forgotten": int(forgotten) if forgotten.isascii() and forgotten.isdigit() else None,
        }

    async def _names(self, request: Request, filters: FileFilters) -> tuple[list[str], list[str]]:
        """Return all namespaces, and those that the filters mean."""
        counts = await self._api.ask(request, calls.namespaces())
        names = [each.namespace for each in counts.namespaces]
        return names, [filters.namespace] if filters.namespace else names

    async def _listed(
        self, request: Request, filters: FileFilters, names: Sequence[str]
    ) -> tuple[list[IngestedFile], str]:
        lists = [calls.list_entries(**filters.list_options(name)) for name in names]
        entries, after = newest(await asyncio.gather(*(self._api.ask(request, each) for each in lists)))
        return files_of(filter(filters.has, entries)), after

    async def _counted(self, request: Request, filters: FileFilters) -> dict[str, Any]:
        _, names = await self._names(request, filters)
        counted: list[FileCount] = []
        left, uncounted = MAX_COUNTED_IN_ALL, 0
        for name in names[:MAX_LISTED]:
            if left <= 0:
                uncounted += 1
                continue
            entries, is_all = await self._walked(request, filters, name)
            left -= len(entries)
            if files := files_of(entries):
                counted.append(count_of(name, files, is_all=is_all))
        uncounted += max(0, len(names) - MAX_LISTED)
        return {"counted_files": counted, "uncounted": uncounted, "queued": await self._queued(request)}

    async def _queued(self, request: Request) -> int | None:
        """Return how many chunks wait in the whole daemon, which only its admins may know."""
        with suppress(AccessDenied):
            return (await self._api.ask(request, calls.queue())).pending
        return None

    async def _walked(
        self, request: Request, filters: FileFilters, namespace: str
    ) -> tuple[list[EntryView], bool]:
        """Return the newest entries of files in a namespace, and whether these are all."""
        entries: list[EntryView] = []
        cursor: str | None = ""
        while cursor is not None and len(entries) < MAX_COUNTED:
            options = filters.list_options(namespace, limit=LISTED_AT_ONCE, cursor=cursor)
            listed = await self._api.ask(request, calls.list_entries(**options))
            entries += filter(filters.has, listed.entries)
            cursor = listed.next
        return entries, cursor is None

    async def _withdrawn(self, request: Request, filters: FileFilters) -> dict[str, Any]:
        """Return the withdrawn entries that the form erases, and how many files they are of."""
        options = filters.list_options(filters.namespace, limit=LISTED_AT_ONCE) | {"marked": True}
        listed = await self._api.ask(request, calls.list_entries(**options))
        found = [
            each
            for each in filter(filters.has, listed.entries)
            if each.file_state and each.file_state.state == "withdrawn"
        ]
        entries = found[:MAX_FORGOTTEN]
        is_all = len(entries) == len(found) and listed.next is None
        files = files_of(entries)
        return {"filters": filters, "entries": entries, "files": files, "is_all": is_all, "visible": visible}
