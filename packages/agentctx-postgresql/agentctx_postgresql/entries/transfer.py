"""Export entries page by page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from agentctx.errors import StorageCorrupt
from agentctx.storage.entries import ExportedVectors, ExportPage, ExportRow, ExportSelection
from agentctx.storage.faults import Faults, ReadContext
from agentctx.storage.records import Entry
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import lookup
from agentctx_postgresql.entries.rows import SELECT_ENTRY, undamaged, verified
from agentctx_postgresql.search.filters import Parameters

PAGE_CHARS: Final = 400_000
"""A page ends once it contains this much text, which keeps replies to a few megabytes."""

_ACTIVE: Final = "SELECT id, fingerprint FROM spaces WHERE state = 'active' AND dimension IS NOT NULL"
_OLDEST_RUNNING: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


async def page(
    conn: Connection, context: ReadContext, selection: ExportSelection, *, after: int, limit: int
) -> ExportPage:
    """Return live entries in the order of the transactions that changed them, after transaction `after`.

    All rows of a transaction are on the same page. A page never ends at a transaction that may still be
    running, because its later rows would be missed.
    """
    now, faults = context
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
