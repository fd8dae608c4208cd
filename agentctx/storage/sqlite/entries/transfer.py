"""Exports entries page by page, and imports them under their own ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentctx.errors import Forgotten, StorageCorrupt
from agentctx.storage.entries import ExportedVectors, ExportPage, ExportRow, ExportSelection, ImportOptions
from agentctx.storage.faults import Faults
from agentctx.storage.file.driver import Connection
from agentctx.storage.file.vec0 import for_lookups
from agentctx.storage.records import Change, Draft, Entry, SaveOutcome
from agentctx.storage.sqlite.audit import chain
from agentctx.storage.sqlite.entries import lookup, saving
from agentctx.storage.sqlite.entries.rows import SELECT_ENTRY, undamaged, verified
from agentctx.storage.sqlite.trust import provenance, quarantine
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.versions import (
    Times,
    WriteOptions,
    change_by_import,
    is_expired,
    is_held_by_import,
    outcome_of_import,
    refuse_other_entry,
)

PAGE_CHARS = 400_000
"""A page ends after this much text, so that a reply stays below a few megabytes."""

_ACTIVE = "SELECT id, fingerprint FROM spaces WHERE state = 'active' AND dimension IS NOT NULL"


def page(
    conn: Connection, selection: ExportSelection, *, now: int, after: int, limit: int, faults: Faults
) -> ExportPage:
    """Return live entries after row `after`, oldest first, at most `limit`.

    Damaged chunks are left out.
    """
    condition, parameters = _condition(selection, now)
    rows = conn.execute(
        f"{SELECT_ENTRY} WHERE e.seq > ? AND {condition} ORDER BY e.seq LIMIT ?",
        (after, *parameters, limit + 1),
    )
    found: list[ExportRow] = []
    last, chars = after, 0
    for row in rows:
        if len(found) == limit or chars > PAGE_CHARS:
            return ExportPage(tuple(found), last)
        last = row[0]
        try:
            exported = _exported(conn, row, selection, faults)
        except StorageCorrupt:
            faults.record("entry", row[1])
            continue
        found.append(exported)
        chars += sum(len(version.content) for version in (exported.entry, *exported.versions))
    return ExportPage(tuple(found), None)


def _condition(selection: ExportSelection, now: int) -> tuple[str, list[Any]]:
    parts = ["e.live = 1", "(e.expires IS NULL OR e.expires > ?)"]
    values: list[Any] = [now]
    for column, names in (("namespace", selection.namespaces), ("collection", selection.collections)):
        if names:
            parts.append(f"e.{column} IN (SELECT value FROM json_each(?))")  # noqa: S608 - a constant
            values.append(json.dumps(names))
    if selection.since is not None:
        parts.append("e.updated >= ?")
        values.append(selection.since)
    return " AND ".join(parts), values


def _exported(conn: Connection, row: Any, selection: ExportSelection, faults: Faults) -> ExportRow:
    entry = verified(row)
    spans = conn.execute(
        "SELECT id, start_at, end_at FROM chunks WHERE entry = ? AND cue = 0 ORDER BY ordinal", (row[0],)
    ).fetchall()
    return ExportRow(
        entry=entry,
        versions=_older(conn, entry.id, faults) if selection.with_history else (),
        chunks=tuple((start, end) for _, start, end in spans),
        vectors=_vectors(conn, [chunk for chunk, _, _ in spans]) if selection.with_vectors else None,
    )


def _older(conn: Connection, entry_id: str, faults: Faults) -> tuple[Entry, ...]:
    rows = conn.execute(f"{SELECT_ENTRY} WHERE e.id = ? AND e.live = 0 ORDER BY e.version", (entry_id,))
    return tuple(undamaged(rows, faults))


def _vectors(conn: Connection, chunks: Sequence[int]) -> ExportedVectors | None:
    """Return the vectors of the active space; None without one."""
    space = conn.execute(_ACTIVE).fetchone()
    if space is None:
        return None
    select = f"SELECT embedding FROM {for_lookups(conn, SpaceIndex(space[0]).table)} WHERE id = ?"  # noqa: S608 - quoted
    found = [conn.execute(select, (chunk,)).fetchone() for chunk in chunks]
    return ExportedVectors(json.loads(space[1]), tuple(bytes(row[0]) if row else None for row in found))


def import_entry(conn: Connection, draft: Draft, wanted: ImportOptions, options: WriteOptions) -> SaveOutcome:
    """Create the entry with its id and times, or add the next version to an older existing entry.

    An existing entry has this id or the same key; an expired one is erased first. With `dry_run`, change
    nothing.

    Raises:
        Forgotten: the id was forgotten, and `include_forgotten` is false.
        InvalidInput: the id belongs to another entry.
    """
    now, entry_id = options.now, wanted.entry_id
    found = _present(conn, draft, entry_id, now)
    entry = found[1] if found else None
    is_live = entry is not None and entry.id == entry_id
    # An id that is live again was brought back on purpose.
    if not (wanted.include_forgotten or is_live) and chain.was_forgotten(conn, entry_id):
        raise Forgotten(f"{entry_id!r} was forgotten here.")
    change = change_by_import(entry, draft, wanted.updated)
    is_held = wanted.is_held and is_held_by_import(entry, draft, change)
    if wanted.dry_run:
        return outcome_of_import(entry, entry_id, change, quarantined=is_held)
    if is_held:
        quarantine.hold(conn, entry.id if entry else entry_id, screened=True, revocation=None, now=now)
    if change is Change.NONE:
        return outcome_of_import(entry, entry_id, change, quarantined=is_held)
    if found:
        return saving.follow(conn, *found, draft, options, updated=wanted.updated)
    erased = _expire(conn, draft, entry_id, now)
    draft = provenance.apply_provenance(conn, draft, entry_id, now=now)
    times = Times(wanted.created, wanted.updated, now)
    saved = saving.insert_version(conn, draft, entry_id, options, times=times)
    return replace(saved, erased=erased)


def _expire(conn: Connection, draft: Draft, entry_id: str, now: int) -> tuple[str, ...]:
    """Erase expired entries with this id or key that were not swept yet; return their ids."""
    rows = conn.execute(
        """SELECT seq, id FROM entries WHERE live = 1 AND expires <= ?
           AND (id = ? OR namespace = ? AND collection = ? AND key = ?)""",
        (now, entry_id, draft.namespace, draft.collection, draft.key),
    ).fetchall()
    for seq, expired in rows:
        saving.expire(conn, seq, expired, now=now)
    return tuple(expired for _, expired in rows)


def _present(conn: Connection, draft: Draft, entry_id: str, now: int) -> tuple[int, Entry] | None:
    found = lookup.get(conn, entry_id, now=now)
    if found is not None:
        refuse_other_entry(found[1], draft)
        return found
    if draft.key is None:
        return None
    by_key = lookup.find(conn, draft.namespace, draft.collection, draft.key)
    return None if by_key is None or is_expired(by_key[1], now) else by_key
