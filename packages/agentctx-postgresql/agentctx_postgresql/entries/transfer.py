"""Export entries page by page, and import them under their own ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from agentctx.errors import Forgotten, StorageCorrupt
from agentctx.storage.entries import ExportedVectors, ExportPage, ExportRow, ExportSelection, ImportOptions
from agentctx.storage.faults import Faults
from agentctx.storage.records import Change, Draft, Entry, SaveOutcome
from agentctx.storage.versions import (
    Times,
    WriteOptions,
    change_by_import,
    is_expired,
    is_held_by_import,
    outcome_of_import,
    refuse_other_entry,
)
from agentctx_postgresql import locks
from agentctx_postgresql.audit import audit_events
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import lookup, saving
from agentctx_postgresql.entries.rows import SELECT_ENTRY, undamaged, verified
from agentctx_postgresql.erasures import record_erasure
from agentctx_postgresql.search.filters import Parameters
from agentctx_postgresql.trust import provenance, quarantine

PAGE_CHARS: Final = 400_000
"""A page ends once it contains this much text, which keeps replies to a few megabytes."""

_ACTIVE: Final = "SELECT id, fingerprint FROM spaces WHERE state = 'active' AND dimension IS NOT NULL"
_OLDEST_RUNNING: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


async def page(
    conn: Connection, selection: ExportSelection, *, now: int, after: int, limit: int, faults: Faults
) -> ExportPage:
    """Return live entries in the order of the transactions that changed them, after transaction `after`.

    All rows of a transaction are on the same page. A page never ends at a transaction that may still be
    running, because its later rows would be missed.
    """
    oldest_running = await conn.fetchval(_OLDEST_RUNNING)
    parameters = Parameters()
    condition = _condition(selection, parameters, now)
    since = f"e.x > {parameters.add(str(after))}::text::xid8"
    sql = f"{SELECT_ENTRY} WHERE {since} AND {condition} ORDER BY e.x, e.seq"
    found: list[ExportRow] = []
    last, chars = after, 0
    async for row in conn.cursor(sql, *parameters, prefetch=lookup.ROWS_AT_ONCE):
        is_full = len(found) >= limit or chars > PAGE_CHARS
        if is_full and after < last < min(row["x"], oldest_running):
            return ExportPage(tuple(found), last)
        last = row["x"]
        try:
            exported = await _exported(conn, row, selection, faults)
        except StorageCorrupt:
            faults.record("entry", row["id"])
            continue
        found.append(exported)
        chars += sum(len(version.content) for version in (exported.entry, *exported.versions))
    return ExportPage(tuple(found), None)


def _condition(selection: ExportSelection, parameters: Parameters, now: int) -> str:
    parts = ["e.live", f"(e.expires IS NULL OR e.expires > {parameters.add(now)})"]
    for column, names in (("namespace", selection.namespaces), ("collection", selection.collections)):
        if names:
            parts.append(f"e.{column} = ANY ({parameters.add(list(names))}::text[])")
    if selection.since is not None:
        parts.append(f"e.updated >= {parameters.add(selection.since)}")
    return " AND ".join(parts)


async def _exported(conn: Connection, row: Any, selection: ExportSelection, faults: Faults) -> ExportRow:
    entry = verified(row)
    spans = await conn.fetch(
        "SELECT id, start_at, end_at FROM chunks WHERE entry = $1 AND cue = 0 ORDER BY ordinal", row["seq"]
    )
    return ExportRow(
        entry=entry,
        versions=await _older(conn, entry.id, faults) if selection.with_history else (),
        chunks=tuple((start, end) for _, start, end in spans),
        vectors=await _vectors(conn, [row[0] for row in spans]) if selection.with_vectors else None,
    )


async def _older(conn: Connection, entry_id: str, faults: Faults) -> tuple[Entry, ...]:
    rows = await conn.fetch(f"{SELECT_ENTRY} WHERE e.id = $1 AND NOT e.live ORDER BY e.version", entry_id)
    return tuple(undamaged(rows, faults))


async def _vectors(conn: Connection, chunks: Sequence[int]) -> ExportedVectors | None:
    """Return the vectors of the active space, or None without one."""
    space = await conn.fetchrow(_ACTIVE)
    if space is None:
        return None
    rows = await conn.fetch(
        f"SELECT chunk, embedding FROM vec_{space['id']:d} WHERE chunk = ANY ($1::bigint[])",  # noqa: S608 - a number
        list(chunks),
    )
    stored = {row[0]: row[1].tobytes() for row in rows}
    return ExportedVectors(json.loads(space["fingerprint"]), tuple(stored.get(chunk) for chunk in chunks))


async def import_entry(
    conn: Connection, draft: Draft, wanted: ImportOptions, options: WriteOptions
) -> SaveOutcome:
    """Import the entry with its id and times, or as the next version of an older entry already present.

    With `dry_run`, change nothing; otherwise it needs the shared lock on the spaces.

    An entry with this id or the same key counts as present; an expired one is erased first.

    Raises:
        Forgotten: the id was forgotten, and `include_forgotten` is not set.
        InvalidInput: the id belongs to another entry.
    """
    now, entry_id = options.now, wanted.entry_id
    if not wanted.dry_run:
        await _take(conn, draft, entry_id)
    found = await _present(conn, draft, entry_id, now)
    entry = found[1] if found else None
    is_live = entry is not None and entry.id == entry_id
    # An id that is live again was brought back on purpose.
    if not (wanted.include_forgotten or is_live) and await audit_events.was_forgotten(conn, entry_id):
        raise Forgotten(f"{entry_id!r} was forgotten here.")
    change = change_by_import(entry, draft, wanted.updated)
    is_held = wanted.is_held and is_held_by_import(entry, draft, change)
    if wanted.dry_run:
        return outcome_of_import(entry, entry_id, change, quarantined=is_held)
    if is_held:
        await quarantine.hold(conn, entry.id if entry else entry_id, screened=True, revocation=None, now=now)
        await record_erasure(conn, [entry.id] if entry else [])
    if change is Change.NONE:
        return outcome_of_import(entry, entry_id, change, quarantined=is_held)
    if found:
        return await saving.follow(conn, *found, draft, options, updated=wanted.updated)
    erased = await _expire(conn, draft, entry_id, now)
    draft = await provenance.apply_provenance(conn, draft, entry_id, now=now)
    times = Times(wanted.created, wanted.updated, now)
    saved = await saving.insert_version(conn, draft, entry_id, options, times=times)
    return replace(saved, erased=erased)


async def _take(conn: Connection, draft: Draft, entry_id: str) -> None:
    """Lock the entries with this id or key against changes by other transactions."""
    ids = [entry_id]
    if draft.key is not None:
        await locks.lock_key(conn, draft.namespace, draft.collection, draft.key)
        if by_key := await lookup.find(conn, draft.namespace, draft.collection, draft.key):
            ids.append(by_key[1].id)
    await locks.lock_entries(conn, ids)


async def _expire(conn: Connection, draft: Draft, entry_id: str, now: int) -> tuple[str, ...]:
    """Erase expired entries with this id or key that were not swept yet; return their ids."""
    rows = await conn.fetch(
        """SELECT seq, id FROM entries WHERE live AND expires <= $1
           AND (id = $2 OR namespace = $3 AND collection = $4 AND key = $5)""",
        now,
        entry_id,
        draft.namespace,
        draft.collection,
        draft.key,
    )
    for row in rows:
        await saving.expire(conn, row["seq"], row["id"], now=now)
    return tuple(row["id"] for row in rows)


async def _present(conn: Connection, draft: Draft, entry_id: str, now: int) -> tuple[int, Entry] | None:
    found = await lookup.get(conn, entry_id, now=now)
    if found is not None:
        refuse_other_entry(found[1], draft)
        return found
    if draft.key is None:
        return None
    by_key = await lookup.find(conn, draft.namespace, draft.collection, draft.key)
    return None if by_key is None or is_expired(by_key[1], now) else by_key
