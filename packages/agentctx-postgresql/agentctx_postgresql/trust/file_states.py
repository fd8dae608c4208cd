"""Entries whose file could not be seen, or says something else.

A withdrawn entry is held back like one in quarantine: it keeps its versions, and returns with them. Every
function runs inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentctx.wire import FileMark
from agentctx_postgresql import locks
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import saving
from agentctx_postgresql.erasures import record_erasure
from agentctx_postgresql.trust import quarantine

_OF_NAMESPACE: Final = """SELECT id FROM entries WHERE id = ANY ($1::text[]) AND live AND namespace = $2
    AND ($3 OR attributes->'file' IS NOT NULL)"""
_MARK: Final = """INSERT INTO file_states AS f (entry, state, reason, since)
    SELECT unnest($1::text[]), $2, $3, $4 ON CONFLICT (entry) DO UPDATE SET
      since = CASE f.state WHEN excluded.state THEN f.since ELSE excluded.since END,
      state = excluded.state, reason = excluded.reason"""
_EXPIRED: Final = """SELECT file_states.entry, e.seq FROM file_states
    LEFT JOIN entries e ON e.id = file_states.entry AND e.live
    LEFT JOIN quarantine ON quarantine.entry = file_states.entry
    WHERE (e.seq IS NULL OR file_states.state = 'withdrawn' AND file_states.since < $1
      AND quarantine.revocation IS NULL)"""


async def mark(
    conn: Connection, namespace: str, marks: Sequence[FileMark], *, now: int
) -> tuple[int, list[str]]:
    """Mark the entries; return how many exist, and the withdrawn ones."""
    await locks.lock_entries(conn, sorted({entry for each in marks for entry in each.entries}))
    count = 0
    withdrawn: list[str] = []
    for each in marks:
        rows = await conn.fetch(_OF_NAMESPACE, each.entries, namespace, each.state == "present")
        found = [row["id"] for row in rows]
        count += len(found)
        await _mark_all(conn, found, each, now=now)
        if each.state == "withdrawn":
            withdrawn += found
    if withdrawn:
        await record_erasure(conn, withdrawn)
    return count, withdrawn


async def expire(conn: Connection, *, before: int, limit: int, now: int) -> list[str]:
    """Erase entries withdrawn before a time, and remove the states of erased ones; return all their ids."""
    ids = [row[0] for row in await conn.fetch(f"{_EXPIRED} ORDER BY 1 LIMIT $2", before, limit)]
    if not ids:
        return []
    await locks.lock_spaces_shared(conn)
    await locks.lock_entries(conn, ids)
    rows = await conn.fetch(f"{_EXPIRED} AND file_states.entry = ANY ($2::text[])", before, ids)
    for entry_id, seq in rows:
        if seq is not None:
            await saving.expire(conn, seq, entry_id, now=now)
    expired = [row[0] for row in rows]
    await conn.execute("DELETE FROM file_states WHERE entry = ANY ($1::text[])", expired)
    await quarantine.give_back(conn, expired)
    return expired


async def _mark_all(conn: Connection, entry_ids: Sequence[str], wanted: FileMark, *, now: int) -> None:
    if wanted.state == "present":
        await conn.execute("DELETE FROM file_states WHERE entry = ANY ($1::text[])", list(entry_ids))
    else:
        await conn.execute(_MARK, list(entry_ids), wanted.state, wanted.reason, now)
    if wanted.state == "withdrawn":
        await quarantine.hold_back(conn, entry_ids, now=now)
    else:
        await quarantine.give_back(conn, entry_ids)
