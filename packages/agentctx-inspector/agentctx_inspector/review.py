"""Review: what waits until somebody decides about it, and how captures are kept from now on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar, cast

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agentctx import wire
from agentctx.client import by_key, calls
from agentctx.client.api_call import ApiCall, write_call
from agentctx.client.by_key import entry_path
from agentctx.errors import AgentctxError, Conflict, InvalidInput
from agentctx.server.errors import STATUS
from agentctx.times import format_time, parse_duration, parse_time
from agentctx_inspector.daemon_api import DaemonApi
from agentctx_inspector.filters import MAX_LISTED, newest
from agentctx_inspector.memory_form import edit_of, fields_of, form_of, values_of, version_in
from agentctx_inspector.rendering import begun_page, page, query

T = TypeVar("T")
Form: TypeAlias = Mapping[str, str]
Act: TypeAlias = Callable[[Request, wire.EntryView, Form], Awaitable[None]]

MAX_SIMILAR: Final = 3
_FOUND: Final = 10
_ASKED_CHARS: Final = 2_000
DONE: Final = {
    "keep": "Kept: answers may contain it from now on.",
    "edit": "Kept, as you wrote it.",
    "merge": "Merged: the other memory says it too, and nothing of it waits any more.",
    "forget": "Forgotten: it is erased.",
    "always": "Kept. What this agent captures in this project is kept at once from now on.",
    "mode": "Set. It holds for what is captured from now on.",
}


@dataclass(frozen=True, slots=True)
class Queue:
    """The part of the queue that an address shows; empty fields do not narrow it."""

    namespace: str = ""
    agent: str = ""
    before: str = ""
    """The id after which the page begins."""

    @classmethod
    def of(cls, given: QueryParams) -> Queue:
        return cls(*(given.get(name, "").strip() for name in ("namespace", "agent", "before")))

    def query(self, **more: str) -> str:
        """Return the query string of this part."""
        own = {"namespace": self.namespace, "agent": self.agent, "before": self.before}
        return query({**own, **more})

    def within(self, captures: Sequence[wire.CaptureState]) -> list[wire.CaptureState]:
        """Return those of the states of which something waits in this part."""
        return [
            each
            for each in captures
            if each.waiting and self.namespace in ("", each.namespace) and self.agent in ("", each.agent)
        ]


def following(entries: Sequence[wire.EntryView], after: str) -> str:
    """Return the id of the entry that comes after one that was decided, else of the last; empty without."""
    if not after or not entries:
        return ""
    return next((each.id for each in entries if each.id < after), entries[-1].id)


def erased_at(entry: wire.EntryView, ttl: str) -> str | None:
    """Return when an entry that waits is erased; None: never."""
    if not ttl or entry.waiting is None:
        return None
    return format_time(parse_time(entry.waiting, now=0) + parse_duration(ttl))


class Review:
    """The pages below `/review`. Each form redirects to the queue, which says what it did."""

    def __init__(self, api: DaemonApi) -> None:
        self._api = api
        self._acts: Mapping[str, Act] = {
            "keep": self._keep,
            "always": self._always,
            "edit": self._edit,
            "merge": self._merge,
            "forget": self._forget,
        }

    async def show(self, request: Request) -> Response:
        return begun_page("review.html", self._queue(request), title="Review", here="Review")

    async def one(self, request: Request) -> Response:
        return begun_page("review_entry.html", self._one(request), here="Review")

    async def decide(self, request: Request) -> Response:
        """Do what the address says to an entry that waits, in the version that was shown."""
        act = self._acts.get(request.path_params["decision"])
        if act is None:
            raise HTTPException(404)
        form = form_of(await request.body())
        try:
            await act(request, await self._shown(request, form), form)
        except AgentctxError as error:
            return await self._refused(request, form, error)
        return _back(request, done=request.path_params["decision"], after=_id(request))

    async def set_mode(self, request: Request) -> Response:
        form = form_of(await request.body())
        if form.get("mode") not in ("review", "auto"):
            raise InvalidInput("The form names no mode.", hint="Go back and send it again.")
        mode = wire.CaptureModeRequest(
            namespace=form.get("namespace", ""),
            agent=form.get("agent") or None,
            mode=cast("wire.RememberMode", form["mode"]),
            way="page",
        )
        await self._ask(request, write_call("PUT", "review/mode", wire.ReviewReply, mode))
        return _back(request, done="mode")

    async def _shown(self, request: Request, form: Form) -> wire.EntryView:
        """Return the entry, if it still waits and is as it was shown. Raises `Conflict`, `NotFound`."""
        entry = await self._ask(request, by_key.get(_id(request)))
        if entry.quarantined != "waiting":
            raise Conflict("It does not wait any more: somebody has decided about it since it was shown.")
        if version_in(form) != entry.version:
            raise Conflict(
                "Somebody changed it since it was shown.", hint="Look at it as it is now, then decide."
            )
        return entry

    async def _keep(self, request: Request, entry: wire.EntryView, _: Form, *, always: bool = False) -> None:
        decision = wire.KeepRequest(way="page", version=entry.version, always=always)
        await self._ask(
            request, write_call("POST", f"{entry_path(entry.id)}/keep", wire.ReleaseReply, decision)
        )

    async def _always(self, request: Request, entry: wire.EntryView, form: Form) -> None:
        await self._keep(request, entry, form, always=True)

    async def _edit(self, request: Request, entry: wire.EntryView, form: Form) -> None:
        if change := edit_of(entry, form):
            change["if_version"] = entry.version
            saved = await self._ask(request, by_key.edit(entry.id, **change))
            entry = replace(entry, version=saved.version)
        await self._keep(request, entry, form)

    async def _merge(self, request: Request, entry: wire.EntryView, form: Form) -> None:
        """Append the text to another entry. It is kept until that has it, so that nothing is lost."""
        other = await self._ask(request, by_key.get(form.get("into", "")))
        if version_in(form, "into_version") != other.version:
            raise Conflict(
                "Somebody changed the similar memory since it was shown.", hint="Look at it again."
            )
        await self._keep(request, entry, form)
        text = f"{other.content}\n\n{entry.content}"
        try:
            await self._ask(request, by_key.edit(other.id, content=text, if_version=other.version))
        except AgentctxError as error:
            raise Conflict(f"It was kept, but not merged: {error.message}", hint=error.hint) from error
        await self._forget(request, entry, form)

    async def _forget(self, request: Request, entry: wire.EntryView, _: Form) -> None:
        await self._ask(request, by_key.forget(entry.id, entry.version))

    async def _one(self, request: Request) -> dict[str, Any]:
        entry = await self._ask(request, by_key.get(_id(request)))
        return await self._values(request, entry)

    async def _refused(self, request: Request, form: Form, problem: AgentctxError) -> Response:
        """Show the entry as it is now with what was typed, and why nothing was done."""
        entry = await self._api.find(request, _id(request))
        values = await self._values(request, entry)
        values |= {"values": {**values["values"], **form}, "typed": _texts(form), "problem": problem}
        return page("review_entry.html", STATUS.get(problem.code, 500), **values)

    async def _values(self, request: Request, entry: wire.EntryView | None) -> dict[str, Any]:
        waits = entry is not None and entry.quarantined == "waiting"
        reply = await self._ask(request, calls.review())
        return {
            "entry": entry,
            "waits": waits,
            "queue": Queue.of(request.query_params),
            "erased": entry and erased_at(entry, reply.ttl),
            "replaces": await self._replaced(request, [entry] if entry else []),
            "fields": [each for each in fields_of(entry) if each.kind == "text"] if entry else [],
            "values": values_of(entry) if entry else {},
            "typed": {},
            "similar": await self._similar(request, entry) if entry and waits else [],
            "problem": None,
        }

    async def _queue(self, request: Request) -> dict[str, Any]:
        queue, given = Queue.of(request.query_params), request.query_params
        reply = await self._ask(request, calls.review())
        states = queue.within(reply.captures)
        names = sorted({each.namespace for each in states})
        lists = [
            calls.list_entries(
                namespace=name,
                waiting=True,
                agent=queue.agent or None,
                limit=MAX_LISTED,
                cursor=queue.before or None,
            )
            for name in names[:MAX_LISTED]
        ]
        entries, after = newest(await asyncio.gather(*(self._ask(request, each) for each in lists)))
        waiting = [each for each in reply.captures if each.waiting]
        return {
            "queue": queue,
            "entries": entries,
            "erased": {each.id: erased_at(each, reply.ttl) for each in entries},
            "replaces": await self._replaced(request, entries),
            "focus": following(entries, given.get("after", "")),
            "next": after,
            "total": sum(each.waiting for each in states),
            "elsewhere": sum(each.waiting for each in waiting) - sum(each.waiting for each in states),
            "left_out": max(0, len(names) - MAX_LISTED),
            "namespaces": _with([each.namespace for each in waiting], queue.namespace),
            "agents": _with([each.agent for each in waiting if each.agent], queue.agent),
            "modes": [each for each in reply.captures if each.mode],
            "done": DONE.get(given.get("done", "")),
        }

    async def _replaced(
        self, request: Request, entries: Sequence[wire.EntryView]
    ) -> dict[str, wire.EntryView | None]:
        """Return what the entries would supersede, by id; None for what is gone or not to be read."""
        ids = dict.fromkeys(id_ for each in entries for id_ in each.attributes.get("supersedes") or ())
        found = await asyncio.gather(*(self._api.find(request, each) for each in ids))
        return dict(zip(ids, found, strict=True))

    async def _similar(self, request: Request, entry: wire.EntryView) -> list[wire.EntryView]:
        """Return the entries that say the most similar things and can take a text more."""
        asked = calls.search(entry.content[:_ASKED_CHARS], namespaces=[entry.namespace], limit=_FOUND)
        try:
            hits = (await self._ask(request, asked)).results
        except InvalidInput:  # it has no words to look for
            return []
        ids = [each for each in dict.fromkeys(hit.id for hit in hits) if each != entry.id][:MAX_SIMILAR]
        found = await asyncio.gather(*(self._api.find(request, each) for each in ids))
        return [each for each in found if each and each.collection != "learning"]

    async def _ask(self, request: Request, call: ApiCall[T]) -> T:
        return await self._api.ask(request, call)


def _id(request: Request) -> str:
    return str(request.path_params["entry_id"])


def _back(request: Request, **said: str) -> Response:
    address = f"/review{Queue.of(request.query_params).query(**said)}"
    return RedirectResponse(f"{address}#next" if "after" in said else address, 303)


def _texts(form: Form) -> dict[str, str]:
    """Return what somebody typed into a form."""
    return {name: text for name, text in form.items() if name not in ("if_version", "into", "into_version")}


def _with(known: Sequence[str], chosen: str) -> list[str]:
    return sorted({*known, *([chosen] if chosen else [])})
