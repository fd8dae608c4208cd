"""Saving, reading and changing entries: from wire requests to the stores, and back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

from agentctx import wire
from agentctx.embedding.fair_queue import yield_admission
from agentctx.embedding.queue.lanes import Lanes
from agentctx.embedding.queue.outcomes import Outcome
from agentctx.errors import AgentctxError, InvalidInput
from agentctx.names import normalised
from agentctx.service import audit_notes as notes
from agentctx.service import guard_rules as rules
from agentctx.service.access.policy import MEMBER, READ, WRITE
from agentctx.service.base import MAX_PAGE, PAGE, Limit, Peer, Readable, Version, every_namespace
from agentctx.service.file_states import FileStates
from agentctx.service.operations import Operation
from agentctx.service.release_worker import ReleaseWorker
from agentctx.service.stores.base import EntryStore, SaveContext
from agentctx.service.stores.collection_rules import ENTRY_FIELDS
from agentctx.service.stores.fields import check_namespace
from agentctx.service.views import entry_view, save_result
from agentctx.storage.base import Storage
from agentctx.storage.ids import id_of_capture, is_id
from agentctx.storage.records import Change, Entry, IdempotencyKey, SaveOutcome
from agentctx.storage.search import Filter
from agentctx.storage.trust import NO_PROVENANCE
from agentctx.storage.versions import unknown_entry
from agentctx.telemetry import Telemetry
from agentctx.times import parse_time

MAX_SOURCES = 1_000
"""Maximum number of entries that one entry may be derived from."""
WAIT_TIMEOUT_S = 30.0
"""How long a save with `wait` waits for its vectors before it replies `pending`."""


@dataclass(frozen=True)
class Entries:
    """Saves, reads and changes entries. `lanes` is None if nothing is embedded."""

    storage: Storage
    stores: EntryStore
    lanes: Lanes | None
    file_states: FileStates
    release_worker: ReleaseWorker
    telemetry: Telemetry

    @Operation("POST", "/entries", WRITE, rules.on_save, errors=(404, 409, 507), is_frequent=True)
    async def save(
        self,
        requests: Sequence[wire.SaveRequest],
        peer: Peer,
        *,
        idempotency_key: str | None = None,
        readable: Readable = every_namespace,
    ) -> list[wire.SaveResult | AgentctxError]:
        """Save each entry independently: an invalid one fails alone. Results are in order.

        Entries can be derived only from what is in a `readable` namespace.
        """
        keys = (None if idempotency_key is None else f"{idempotency_key}/{at}" for at in range(len(requests)))
        saves = [
            self._save_one(request, peer, key, readable) for request, key in zip(requests, keys, strict=True)
        ]
        # A single save needs no task of its own.
        return [await saves[0]] if len(saves) == 1 else list(await asyncio.gather(*saves))

    @Operation("GET", "/entries", READ, rules.in_named, audit=notes.listed)
    async def list_entries(
        self,
        peer: Peer,  # noqa: ARG002
        *,
        namespace: str = wire.DEFAULT_NAMESPACE,
        collection: list[str] | None = None,
        session: str | None = None,
        agent: str | None = None,
        category: str | None = None,
        tag: list[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        key: str | None = None,
        key_prefix: str | None = None,
        withdrawn: bool = False,
        marked: bool = False,
        waiting: bool = False,
        derived_from: str | None = None,
        include_superseded: bool = False,
        content: bool = True,
        limit: Limit = PAGE,
        cursor: str | None = None,
    ) -> wire.EntryPage:
        """List live entries, newest first, in pages; `content=false` omits their texts.

        `since` and `until` bound the time of the last change, as RFC 3339 times or ages like `7d`. Entries
        whose file is gone or says something else are left out unless `withdrawn`; `marked` lists only those,
        and the ones whose file could not be seen. So are those that others supersede or resolve, unless
        `include_superseded`, and those that wait for a review: `waiting` lists only these. `derived_from`, an
        id, lists what was made from that entry.
        """
        check_namespace(namespace)
        for each in collection or ():
            self.stores.check_collection(each)
        now = self.storage.clock()
        # Who names a key, or what an entry is made of, wants the entries whatever their state.
        is_named = key is not None or derived_from is not None
        listed = Filter(
            namespace=namespace,
            collections=None if collection is None else tuple(collection),
            session=session,
            agent=agent,
            category=category,
            tags=tuple(map(normalised, tag or ())),
            since=None if since is None else parse_time(since, now=now),
            until=None if until is None else parse_time(until, now=now),
            key=key,
            key_prefix=key_prefix,
            with_withdrawn=withdrawn or marked or waiting or is_named,
            with_superseded=include_superseded or waiting or is_named,
            waiting=None if is_named and not waiting else waiting,
            only_marked=marked,
            derived_from=derived_from,
        )
        entries, after = await self.stores.list_entries(
            listed, limit=limit, before=_list_cursor(cursor), with_content=content
        )
        return wire.EntryPage(entries=await self._views(entries), next=after)

    @Operation("GET", "/namespaces", MEMBER, rules.in_readable, audit=notes.counted)
    async def namespaces(self, peer: Peer, *, readable: Readable = every_namespace) -> wire.NamespaceList:  # noqa: ARG002
        """Count the entries of each namespace that the caller may read, the largest first, at most 1,000."""
        counts = await self.storage.entries.count_by_namespace()
        names = sorted(filter(readable, counts), key=lambda name: (-counts[name], name))
        listed = [wire.NamespaceCount(namespace=each, entries=counts[each]) for each in names[:MAX_PAGE]]
        return wire.NamespaceList(namespaces=listed, more=len(names) - len(listed))

    @Operation("GET", "/entries/{entry_id}", READ, rules.on_entry, audit=notes.read_entry, errors=(404,))
    async def get(self, entry_id: str, peer: Peer, *, version: Version | None = None) -> wire.EntryView:  # noqa: ARG002
        """Read an entry: the live version, or an older one."""
        return (await self._views([await self.stores.get(entry_id, version)]))[0]

    @Operation("PATCH", "/entries/{entry_id}", WRITE, rules.on_entry, errors=(404, 409, 507))
    async def edit(self, entry_id: str, request: wire.EditRequest, peer: Peer) -> wire.SaveResult:
        """Change fields of an entry; absent fields are left unchanged."""
        with self.telemetry.editing() as editing:
            changes = _entry_fields(_sent(request))
            if not changes and request.clear is None and request.ttl is None:
                raise InvalidInput("This edit changes nothing.", hint="Send at least one field to change.")
            saved = await self.stores.edit(
                entry_id,
                changes,
                clear=request.clear or (),
                if_version=request.if_version,
                ttl=request.ttl,
                principal=peer.uid,
            )
            editing.ended(saved.change.value)
        return await self._settled(saved, wait=request.wait is not None)

    @Operation(
        "GET", "/entries/{entry_id}/versions", READ, rules.on_entry, audit=notes.read_versions, errors=(404,)
    )
    async def versions(
        self,
        entry_id: str,
        peer: Peer,  # noqa: ARG002
        *,
        limit: Limit = PAGE,
        cursor: str | None = None,
    ) -> wire.VersionPage:
        """List the versions of an entry, newest first, in pages."""
        found, after = await self.stores.history(entry_id, limit=limit, before=_version_cursor(cursor))
        return wire.VersionPage(versions=await self._views(found), next=None if after is None else str(after))

    @Operation("POST", "/learnings/{entry_id}/outcome", WRITE, rules.on_entry, errors=(404, 409, 507))
    async def outcome(self, entry_id: str, request: wire.OutcomeRequest, peer: Peer) -> wire.SaveResult:
        """Record whether applying a learning worked."""
        with self.telemetry.editing() as editing:
            saved = await self.stores.record_outcome(entry_id, success=request.success, principal=peer.uid)
            editing.ended(saved.change.value)
        return save_result(saved)

    async def _save_one(
        self, request: wire.SaveRequest, peer: Peer, idempotency_key: str | None, readable: Readable
    ) -> wire.SaveResult | AgentctxError:
        sent = _sent(request)
        context = SaveContext(
            namespace=request.namespace,
            session=request.session,
            agent=request.agent,
            origin=request.origin,
            principal=peer.uid,
            ttl=request.ttl,
            if_version=request.if_version,
            idempotency=_idempotency(idempotency_key, sent, peer, request.namespace),
            remember=request.remember,
            derived_from=tuple(dict.fromkeys(each.lower() for each in request.derived_from or ())),
        )
        try:
            await self._check_sources(context, readable)
            with self.telemetry.saving() as saving:
                saved = await self.stores.save_fields(request.collection, _entry_fields(sent), context)
                saving.ended(request.collection, str(saved.change))
            if saved.quarantined:
                saved = await self.file_states.give_back(saved, request.namespace)
            return await self._settled(saved, wait=request.wait is not None)
        except AgentctxError as error:
            return error

    async def _check_sources(self, context: SaveContext, readable: Readable) -> None:
        """Raise `InvalidInput` or `NotFound` unless the sources are entries that the peer may read."""
        if len(context.derived_from) > MAX_SOURCES:
            raise InvalidInput(f"derived_from takes at most {MAX_SOURCES:,} entry ids.")
        for source in context.derived_from:
            if not is_id(source):
                raise InvalidInput(
                    f"derived_from has {source[:64]!r}, which is not an id.",
                    hint="`agentctx list` shows the ids.",
                )
            if context.origin == "capture":  # what a reply was made of may be gone when the reply ends
                continue
            namespace = await self.storage.entries.namespace_of(source)
            if namespace is None or not readable(namespace):
                raise unknown_entry(source)

    async def _settled(self, saved: SaveOutcome, *, wait: bool) -> wire.SaveResult:
        reply = save_result(saved)
        if saved.change.is_version:
            known = await self.storage.trust.provenance([saved.id])
            reply = save_result(saved, known.get(saved.id, NO_PROVENANCE).superseded_by)
        if saved.change is not Change.NONE:
            self.telemetry.flagged(saved.flags)
        if saved.quarantined:
            self.release_worker.notify()
        if not (wait and self.lanes is not None and reply.embedding == "pending"):
            return reply
        lane = self.lanes.leading  # a save does not wait for a space being built
        if awaited := [job.id for job in saved.jobs if job.space == lane.space]:
            async with yield_admission():
                ended = await lane.queue.wait_settled(awaited, WAIT_TIMEOUT_S)
            is_done = all(ended.get(job) is Outcome.DONE for job in awaited)
            if is_done and saved.change in {Change.CREATED, Change.VERSION}:  # others may have older jobs
                return replace(reply, embedding="done")
        entry = await self.stores.get(reply.id)
        return replace(reply, embedding=entry_view(entry).embedding)

    async def _views(self, entries: Sequence[Entry]) -> list[wire.EntryView]:
        known = await self.storage.trust.provenance([entry.id for entry in entries])
        kept_ms = self.file_states.kept_ms
        return [
            entry_view(entry, known.get(entry.id, NO_PROVENANCE), withdrawn_ms=kept_ms) for entry in entries
        ]


def _entry_fields(sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the entry that were sent."""
    return {name: value for name, value in sent.items() if name in ENTRY_FIELDS}


def _sent(request: wire.SaveRequest | wire.EditRequest) -> dict[str, Any]:
    return {
        name: asdict(value) if isinstance(value, wire.FileRecord) else value
        for name in request.__dataclass_fields__
        if (value := getattr(request, name)) is not None
    }


def _idempotency(
    key: str | None, sent: Mapping[str, Any], peer: Peer, namespace: str
) -> IdempotencyKey | None:
    if key is None:
        return None
    meaning = {name: value for name, value in sent.items() if name not in {"wait", "remember"}}
    digest = sha256(repr(meaning).encode("utf-8", "surrogatepass")).digest()
    is_capture = sent.get("origin") == "capture"
    return IdempotencyKey(peer.uid, key, digest, id_of_capture(key, namespace) if is_capture else None)


def _list_cursor(cursor: str | None) -> str | None:
    if cursor is None or is_id(cursor):
        return cursor
    _version_cursor(cursor)
    return None  # a number is from before an update: the walk begins again


def _version_cursor(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise InvalidInput("Invalid list cursor.", hint="Send the `next` of the previous page.")
    return int(cursor)
