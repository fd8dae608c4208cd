"""One memory: what it says, where it comes from, how it changed, where it was used; and what can be done."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agentctx import wire
from agentctx.client import by_key, calls
from agentctx.client.api_call import ApiCall
from agentctx.errors import AgentctxError, InvalidInput, VersionConflict
from agentctx.server.errors import STATUS
from agentctx.service.earlier_version import fields_to_restore
from agentctx.text.chunking.entry import chunk_entry
from agentctx.times import wall_clock
from agentctx_inspector.daemon_api import DaemonApi
from agentctx_inspector.diffs import changes, in_words
from agentctx_inspector.memory_form import edit_of, fields_of, form_of, values_of, version_in
from agentctx_inspector.rendering import begun_page, page

T = TypeVar("T")

MAX_VERSIONS: Final = 30
MAX_RECEIPTS: Final = 30
"""Number of the last calls that found a memory, and of the memories that are related to it in one way."""
_ID: Final = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_UNSHOWN: Final = frozenset({"file", "tags", "cues", "source", "supersedes", "resolves"})
DONE: Final = {
    "edited": "Saved as a new version.",
    "unchanged": "Nothing was changed: it says that already.",
    "restored": "The earlier version is live again, as a new version.",
    "released": "Released: answers may contain it again.",
    "superseded": "The other memory is in its place now; answers leave this one out.",
}


class Memory:
    """The page of one memory and its forms. Each form redirects to the page that shows what it did."""

    def __init__(self, api: DaemonApi) -> None:
        self._api = api

    async def show(self, request: Request) -> Response:
        return begun_page("memory.html", self._values(request), here="Memories")

    async def edit(self, request: Request) -> Response:
        form = form_of(await request.body())
        entry = await self._entry(request)
        try:
            change = edit_of(entry, form)
            if not change:
                return _done(request, "unchanged")
            change["if_version"] = version_in(form)
            saved = await self._ask(request, by_key.edit(entry.id, **change))
        except VersionConflict:
            conflict = VersionConflict(
                "Someone changed this memory since you opened it.",
                hint="Compare with its text above. Saving again puts your text in its place.",
            )
            return await self._refused(request, form, conflict)
        except AgentctxError as error:
            return await self._refused(request, form, error)
        return _done(request, "edited" if saved.changed else "unchanged")

    async def forget(self, request: Request) -> Response:
        form = form_of(await request.body())
        with_copies = "with_copies" in form
        await self._ask(request, by_key.forget(_id(request), version_in(form), with_copies=with_copies))
        return RedirectResponse("/?done=forgotten", 303)

    async def restore(self, request: Request) -> Response:
        form = form_of(await request.body())
        entry = await self._entry(request)
        earlier = await self._ask(request, by_key.get(entry.id, version_in(form, "version")))
        change = fields_to_restore(entry, earlier, now=wall_clock())
        change["if_version"] = version_in(form)
        await self._ask(request, by_key.edit(entry.id, **change))
        return _done(request, "restored")

    async def release(self, request: Request) -> Response:
        await self._ask(request, calls.release(_id(request)))
        return _done(request, "released")

    async def supersede(self, request: Request) -> Response:
        """Let another memory of the namespace, named by id or key, take the place of this one."""
        form = form_of(await request.body())
        entry = await self._entry(request)
        other = await self._named(request, form.get("by", "").strip(), entry.namespace)
        older = [*(other.attributes.get("supersedes") or ()), entry.id]
        await self._ask(request, by_key.edit(other.id, supersedes=older, if_version=other.version))
        return _done(request, "superseded")

    async def uses(self, request: Request) -> Response:
        """Show in which of the last calls that found it it was."""
        if "fragment" in request.query_params:
            return page("uses.html", **await self._uses(request))
        return begun_page("uses_page.html", self._uses(request), here="Memories")

    async def _uses(self, request: Request) -> dict[str, Any]:
        entry = await self._entry(request)
        listed = await self._ask(request, calls.injections(MAX_RECEIPTS, entry.id))
        with_block = [each.id for each in listed.injections if each.injected]
        receipts = await asyncio.gather(*(self._ask(request, calls.injection(each)) for each in with_block))
        used = [each for each in receipts if _is_in(entry.id, each)]
        return {"entry": entry, "used": used, "looked_at": len(listed.injections)}

    async def _refused(self, request: Request, form: Mapping[str, str], problem: AgentctxError) -> Response:
        """Show the page with what was typed, and why it was not saved."""
        values = await self._values(request)
        values |= {"values": {**values["values"], **form}, "problem": problem}
        return page("memory.html", STATUS.get(problem.code, 500), **values)

    async def _values(self, request: Request) -> dict[str, Any]:
        entry = await self._entry(request)
        versions = await self._ask(request, calls.history(entry.id, limit=MAX_VERSIONS))
        made_of_it = calls.list_entries(
            namespace=entry.namespace, derived_from=entry.id, limit=MAX_RECEIPTS, content=False
        )
        related = {
            "Derived from": entry.derived_from,
            "In place of": entry.attributes.get("supersedes") or [],
            "Settles": entry.attributes.get("resolves") or [],
            "Replaced by": entry.superseded_by,
        }
        return {
            "entry": entry,
            "chunks": [] if entry.quarantined else _chunks(entry),
            "more": {
                name: in_words(value) for name, value in entry.attributes.items() if name not in _UNSHOWN
            },
            "changes": await asyncio.to_thread(changes, versions.versions),
            "has_older": versions.next is not None,
            "related": {name: await self._titles(request, ids) for name, ids in related.items() if ids},
            "made_of_it": await self._ask(request, made_of_it),
            "fields": fields_of(entry),
            "values": values_of(entry),
            "problem": None,
            "done": DONE.get(request.query_params.get("done", "")),
        }

    async def _entry(self, request: Request) -> wire.EntryView:
        return await self._ask(request, by_key.get(_id(request)))

    async def _titles(self, request: Request, ids: Sequence[str]) -> list[tuple[str, wire.EntryView | None]]:
        """Return each id with its memory; None if it is forgotten or may not be read."""
        return [(each, await self._api.find(request, each)) for each in ids[:MAX_RECEIPTS]]

    async def _named(self, request: Request, name: str, namespace: str) -> wire.EntryView:
        if _ID.fullmatch(name):
            return await self._ask(request, by_key.get(name.lower()))
        if not name:
            raise InvalidInput("Name the memory that replaces it.", hint="Give its id or its key.")
        listed = await self._ask(request, calls.list_entries(namespace=namespace, key=name, limit=2))
        if len(listed.entries) != 1:
            many = "Several memories have" if listed.entries else "No memory here has"
            raise InvalidInput(f"{many} this key.", hint="Give the id: it is on the memory's page.")
        return listed.entries[0]

    async def _ask(self, request: Request, call: ApiCall[T]) -> T:
        return await self._api.ask(request, call)


def _id(request: Request) -> str:
    return str(request.path_params["entry_id"])


def _done(request: Request, what: str) -> Response:
    return RedirectResponse(f"/memory/{quote(_id(request), safe='')}?done={what}", 303)


def _chunks(entry: wire.EntryView) -> list[tuple[int, int, str]]:
    spans = chunk_entry(entry.content, source=entry.attributes.get("source"))
    return [(span.start, span.end, entry.content[span.start : span.end]) for span in spans]


def _is_in(entry_id: str, receipt: wire.InjectionView) -> bool:
    return any(each.entry == entry_id and each.fate == "injected" for each in receipt.candidates)
