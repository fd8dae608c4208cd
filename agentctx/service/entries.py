"""Saving, reading and changing entries: from wire requests to the stores, and back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from typing import Any

from agentctx import wire
from agentctx.access.turns import yield_turn
from agentctx.embedding_queue.lanes import Lanes
from agentctx.errors import AgentctxError, InvalidInput
from agentctx.names import normalised
from agentctx.service.base import MAX_PAGE, Listing, Peer, Readable, every_namespace
from agentctx.service.file_states import FileStates
from agentctx.service.settler import Settler
from agentctx.service.views import entry_view, save_result
from agentctx.storage.base import Storage
from agentctx.storage.ids import is_id
from agentctx.storage.records import Change, Entry, IdempotencyKey, Saved
from agentctx.storage.search import Filter
from agentctx.storage.trust import NO_PROVENANCE
from agentctx.storage.versions import unknown_entry
from agentctx.stores.base import EntryStore, SaveContext
from agentctx.stores.fields import check_namespace
from agentctx.telemetry.base import Telemetry
from agentctx.times import parse_time

_ENVELOPE = frozenset(
    {"collection", "namespace", "session", "agent", "origin", "ttl", "if_version", "wait", "derived_from"}
)
_WAIT = frozenset({"wait"})
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
    settler: Settler
    telemetry: Telemetry

    async def save(
        self,
        requests: Sequence[wire.SaveRequest],
        peer: Peer,
        *,
        idempotency_key: str | None = None,
        readable: Readable = every_namespace,
    ) -> list[wire.SaveResult | AgentctxError]:
        saves = [
            self._save_one(request, peer, _batch_key(idempotency_key, number), readable)
            for number, request in enumerate(requests)
        ]
        # A single save needs no task of its own.
        return [await saves[0]] if len(saves) == 1 else list(await asyncio.gather(*saves))

    async def edit(self, entry_id: str, request: wire.EditRequest, peer: Peer) -> wire.SaveResult:
        with self.telemetry.editing() as editing:
            changes = _explicit_fields(request, without=frozenset({"ttl", "if_version", "wait"}))
            if not changes and request.ttl is None:
                raise InvalidInput("This edit changes nothing.", hint="Send at least one field to change.")
            saved = await self.stores.edit(
                entry_id,
                changes,
                if_version=request.if_version,
                ttl=request.ttl,
                principal=peer.uid,
            )
            editing.ended(saved.change.value)
        return await self._settled(saved, wait=request.wait is not None)

    async def get(self, entry_id: str, peer: Peer, *, version: int | None = None) -> wire.EntryView:  # noqa: ARG002
        return (await self._views([await self.stores.get(entry_id, version)]))[0]

    async def list_entries(self, wanted: Listing, peer: Peer) -> wire.EntryPage:  # noqa: ARG002
        check_namespace(wanted.namespace)
        for collection in wanted.collections or ():
            self.stores.check_collection(collection)
        now = self.storage.clock()
        listed = Filter(
            namespace=wanted.namespace,
            collections=None if wanted.collections is None else tuple(wanted.collections),
            session=wanted.session,
            agent=wanted.agent,
            category=wanted.category,
            tags=tuple(map(normalised, wanted.tags)),
            since=None if wanted.since is None else parse_time(wanted.since, now=now),
            until=None if wanted.until is None else parse_time(wanted.until, now=now),
            key=wanted.key,
            key_prefix=wanted.key_prefix,
            # Who names a key wants that entry, whatever its state.
            with_withdrawn=wanted.withdrawn or wanted.marked or wanted.key is not None,
            only_marked=wanted.marked,
        )
        entries, after = await self.stores.list_entries(
            listed, limit=wanted.limit, before=_place(wanted.cursor), with_content=wanted.with_content
        )
        return wire.EntryPage(entries=await self._views(entries), next=after)

    async def namespaces(self, peer: Peer, *, readable: Readable = every_namespace) -> wire.NamespaceList:  # noqa: ARG002
        counts = await self.storage.entries.count_by_namespace()
        names = sorted(filter(readable, counts), key=lambda name: (-counts[name], name))
        listed = [wire.NamespaceCount(namespace=each, entries=counts[each]) for each in names[:MAX_PAGE]]
        return wire.NamespaceList(namespaces=listed, more=len(names) - len(listed))

    async def versions(
        self,
        entry_id: str,
        peer: Peer,  # noqa: ARG002
        *,
        limit: int,
        cursor: str | None = None,
    ) -> wire.VersionPage:
        found, after = await self.stores.history(entry_id, limit=limit, before=_position(cursor))
        return wire.VersionPage(versions=await self._views(found), next=None if after is None else str(after))

    async def outcome(self, entry_id: str, request: wire.OutcomeRequest, peer: Peer) -> wire.SaveResult:
        with self.telemetry.editing() as editing:
            saved = await self.stores.record_outcome(entry_id, success=request.success, principal=peer.uid)
            editing.ended(saved.change.value)
        return save_result(saved)

    async def _save_one(
        self, request: wire.SaveRequest, peer: Peer, idempotency_key: str | None, readable: Readable
    ) -> wire.SaveResult | AgentctxError:
        meaning = _explicit_fields(request, without=_WAIT)
        context = SaveContext(
            namespace=request.namespace,
            session=request.session,
            agent=request.agent,
            origin=request.origin,
            principal=peer.uid,
            ttl=request.ttl,
            if_version=request.if_version,
            idempotency=_idempotency(idempotency_key, meaning, peer),
            derived_from=tuple(dict.fromkeys(each.lower() for each in request.derived_from or ())),
        )
        try:
            await self._check_sources(context, readable)
            with self.telemetry.saving() as saving:
                values = {name: value for name, value in meaning.items() if name not in _ENVELOPE}
                saved = await self.stores.save_fields(request.collection, values, context)
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

    async def _settled(self, saved: Saved, *, wait: bool) -> wire.SaveResult:
        reply = save_result(saved)
        if saved.change is not Change.NONE:
            self.telemetry.flagged(saved.flags)
        if saved.quarantined:
            self.settler.notify()
        if not (wait and self.lanes is not None and reply.embedding == "pending"):
            return reply
        if saved.jobs:
            lane = self.lanes.leading  # a save does not wait for a space being built
            async with yield_turn():
                await lane.queue.wait_settled(
                    [job.id for job in saved.jobs if job.space == lane.space], WAIT_TIMEOUT_S
                )
        entry = await self.stores.get(reply.id)
        return replace(reply, embedding=entry_view(entry).embedding)

    async def _views(self, entries: Sequence[Entry]) -> list[wire.EntryView]:
        known = await self.storage.trust.provenance([entry.id for entry in entries])
        kept_ms = self.file_states.kept_ms
        return [
            entry_view(entry, known.get(entry.id, NO_PROVENANCE), withdrawn_ms=kept_ms) for entry in entries
        ]


def _explicit_fields(
    request: wire.SaveRequest | wire.EditRequest, *, without: frozenset[str]
) -> dict[str, Any]:
    """Return the fields that were sent, except those in `without`."""
    return {
        field.name: asdict(value) if isinstance(value, wire.FileRecord) else value
        for field in fields(request)
        if (value := getattr(request, field.name)) is not None and field.name not in without
    }


def _batch_key(key: str | None, number: int) -> str | None:
    return None if key is None else f"{key}/{number}"


def _idempotency(key: str | None, meaning: Mapping[str, Any], peer: Peer) -> IdempotencyKey | None:
    if key is None:
        return None
    return IdempotencyKey(peer.uid, key, sha256(repr(meaning).encode("utf-8", "surrogatepass")).digest())


def _place(cursor: str | None) -> str | None:
    if cursor is None or is_id(cursor):
        return cursor
    _position(cursor)
    return None  # a number is from before an update: the walk begins again


def _position(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise InvalidInput("Invalid list cursor.", hint="Send the `next` of the previous page.")
    return int(cursor)
