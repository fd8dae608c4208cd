"""Exports entries page by page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentctx.errors import StorageCorrupt
from agentctx.storage.entries import ExportedVectors, ExportPage, ExportRow, ExportSelection
from agentctx.storage.faults import Faults, ReadContext
from agentctx.storage.file.driver import Connection
from agentctx.storage.file.vec0 import for_lookups
from agentctx.storage.records import Entry
from agentctx.storage.sqlite.entries.rows import SELECT_ENTRY, undamaged, verified
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex

PAGE_CHARS = 400_000
"""A page ends after this much text, so that a reply stays below a few megabytes."""

_ACTIVE = "SELECT id, fingerprint FROM spaces WHERE state = 'active' AND dimension IS NOT NULL"


def page(
    conn: Connection, context: ReadContext, selection: ExportSelection, *, after: int, limit: int
) -> ExportPage:
    """Return live entries after row `after`, oldest first, at most `limit`.

    Damaged chunks are left out.
    """
    now, faults = context
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
