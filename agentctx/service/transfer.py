"""Exports and imports: conversion between the wire format and the stores."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from agentctx import wire
from agentctx.errors import AgentctxError, Expired, InvalidInput
from agentctx.service import audit_notes as notes
from agentctx.service import guard_rules as rules
from agentctx.service.access.policy import READ, WRITE
from agentctx.service.base import Limit, Peer
from agentctx.service.file_states import MAX_REASON_CHARS
from agentctx.service.operations import Operation
from agentctx.service.release_worker import ReleaseWorker
from agentctx.service.stores.base import EntryStore
from agentctx.service.stores.fields import check_namespace
from agentctx.service.views import entry_view, save_result
from agentctx.storage.base import Storage
from agentctx.storage.entries import ExportRow, ExportSelection
from agentctx.storage.ids import is_id
from agentctx.storage.records import Change, Entry, ImportOptions
from agentctx.storage.trust import NO_PROVENANCE, Provenance
from agentctx.telemetry import Telemetry
from agentctx.times import format_time, parse_time, wall_clock
from agentctx.wire import Trust

DEFAULT_EXPORTED: Final = 100
_CURSOR: Final = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class Transfer:
    """Exports and imports entries."""

    storage: Storage
    stores: EntryStore
    release_worker: ReleaseWorker
    telemetry: Telemetry

    @Operation("GET", "/export", READ, rules.in_selection, audit=notes.exported)
    async def export(
        self,
        peer: Peer,  # noqa: ARG002
        *,
        namespace: list[str] | None = None,
        collection: list[str] | None = None,
        since: str | None = None,
        history: bool = False,
        vectors: bool = False,
        limit: Limit = DEFAULT_EXPORTED,
        cursor: str | None = None,
    ) -> wire.ExportReply:
        """Export live entries of all or some namespaces with their chunks, oldest change first, in pages.

        `history` adds older versions, `vectors` the vectors of the active space, `since` omits entries not
        changed since then. A page may be shorter than `limit`; only a null `next` marks the end.
        """
        namespaces = tuple(map(check_namespace, namespace or ()))
        for each in collection or ():
            self.stores.check_collection(each)
        selection = ExportSelection(
            namespaces=namespaces,
            collections=tuple(collection or ()),
            since=None if since is None else parse_time(since, now=wall_clock()),
            with_history=history,
            with_vectors=vectors,
        )
        if cursor is not None and not _CURSOR.fullmatch(cursor):
            raise InvalidInput("Invalid export cursor.", hint="Send the `next` of the previous page.")
        page = await self.storage.entries.export_page(selection, after=int(cursor or 0), limit=limit)
        known = await self.storage.trust.provenance([each.entry.id for each in page.entries])
        return wire.ExportReply(
            entries=[exported_entry(each, known.get(each.entry.id, NO_PROVENANCE)) for each in page.entries],
            next=None if page.next is None else str(page.next),
        )

    @Operation("POST", "/import", WRITE, rules.on_import, audit=notes.trusted_import, errors=(507,))
    async def import_entries(
        self, request: wire.ImportRequest, peer: Peer
    ) -> list[wire.SaveResult | AgentctxError]:
        """Import each exported version independently; results are in order."""
        by_id: dict[str, list[int]] = {}
        for number, each in enumerate(request.entries):
            by_id.setdefault(each.id, []).append(number)
        results: dict[int, wire.SaveResult | AgentctxError] = {}

        async def import_versions(numbers: Sequence[int]) -> None:
            last = request.entries[numbers[-1]]
            for number in numbers:
                results[number] = await self._import_one(request, number, peer, last)

        await asyncio.gather(*map(import_versions, by_id.values()))
        return [results[number] for number in range(len(request.entries))]

    async def _import_one(
        self, request: wire.ImportRequest, number: int, peer: Peer, last: wire.ImportEntry
    ) -> wire.SaveResult | AgentctxError:
        given = request.entries[number]
        try:
            self.stores.check_collection(given.collection)
            entry = imported_entry(given, last, now=self.storage.clock(), trust=request.trust)
            held = given.quarantined or last.quarantined
            waits = request.review or held == "waiting"
            is_held = held is not None and held != "waiting"
            times = (entry.created, entry.updated)
            saved = await self.stores.import_entry(
                entry,
                ImportOptions(entry.id, *times, is_held, request.dry_run, request.include_forgotten, waits),
                principal=peer.uid,
                last=replace(entry, attributes=last.attributes),
                derived_from=tuple(each.lower() for each in given.derived_from or ()),
            )
        except AgentctxError as error:
            return error
        if saved.change is Change.CREATED and not request.dry_run:
            await self._withdraw_again(saved.id, given)
        if saved.quarantined or given.file_state:
            self.release_worker.notify()
        if not request.dry_run and saved.change is not Change.NONE:
            self.telemetry.flagged(saved.flags)
        return save_result(saved)

    async def _withdraw_again(self, entry_id: str, given: wire.ImportEntry) -> None:
        """Withdraw a new entry that was withdrawn where it comes from."""
        file = given.file_state
        if file is not None and file.state == "withdrawn":
            mark = wire.FileMark(entries=[entry_id], state="withdrawn", reason=file.reason[:MAX_REASON_CHARS])
            await self.storage.trust.mark_files(given.namespace, [mark])


def exported_entry(exported: ExportRow, known: Provenance = NO_PROVENANCE) -> wire.ExportedEntry:
    vectors = exported.vectors
    return wire.ExportedEntry(
        entry=entry_view(exported.entry, known),
        versions=[entry_view(version) for version in exported.versions],
        chunks=[list(span) for span in exported.chunks],
        fingerprint=None if vectors is None else dict(vectors.fingerprint),
        vectors=None
        if vectors is None
        else [None if each is None else b64encode(each).decode() for each in vectors.vectors],
    )


def imported_entry(
    given: wire.ImportEntry, last: wire.ImportEntry, *, now: int, trust: Trust = "external"
) -> Entry:
    """Build an entry from an exported one, with the given trust.

    Its times may be in the future: one of the two machines has a wrong clock, and it is unknown which.
    `last` is the last version of the same entry; its expiry applies to all versions.

    Raises:
        InvalidInput: the id or a time is malformed, or `updated` is before `created`.
        Expired: the entry has expired.
    """
    if not is_id(given.id):
        raise InvalidInput(
            f"Invalid entry id {given.id[:40]!r}.",
            hint="Use a UUID in lower case, not all 0 or all f.",
        )
    created, updated = parse_time(given.created, now=now), parse_time(given.updated, now=now)
    if updated < created:
        raise InvalidInput(
            f"`updated` ({format_time(updated)}) is before `created` ({format_time(created)}).",
            hint="Correct the two times, or remove the line.",
        )
    if _is_over(last, now):
        raise Expired("The entry has expired.")
    expires = None if given.expires is None or _is_over(given, now) else parse_time(given.expires, now=now)
    return Entry(
        id=given.id,
        version=1,
        live=True,
        namespace=given.namespace,
        collection=given.collection,
        key=given.key,
        session=given.session or "",
        agent=given.agent or "",
        content=given.content,
        attributes=given.attributes,
        origin="import",
        trust=trust,
        principal=0,
        created=created,
        updated=updated,
        expires=expires,
        pending=False,
        embedded=False,
    )


def _is_over(given: wire.ImportEntry, now: int) -> bool:
    return given.expires is not None and parse_time(given.expires, now=now) <= now
