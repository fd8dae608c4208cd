"""Revoke all entries of a source and everything derived from them.

Every function runs inside the caller's transaction.
"""

from __future__ import annotations

import json
from typing import Final

from agentctx.errors import NotFound
from agentctx.storage.trust import RevocationResult, Source, UndoneRevocation
from agentctx_postgresql import locks
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.erasures import record_erasure
from agentctx_postgresql.search.filters import Parameters
from agentctx_postgresql.trust import quarantine

_EQUAL: Final = ("namespace", "agent", "session", "principal", "origin", "trust")
_REACHED: Final = """WITH RECURSIVE steps (entry, is_derived) AS (
      SELECT e.id, false FROM entries e WHERE {condition}
      UNION SELECT derivations.entry, true FROM steps JOIN derivations ON derivations.source = steps.entry)
    SELECT entry, bool_and(is_derived), EXISTS (
      SELECT 1 FROM quarantine WHERE quarantine.entry = steps.entry AND quarantine.state <> 'returning'
        AND (screened OR revocation IS NOT NULL))
    FROM steps GROUP BY entry ORDER BY entry"""
_HAS_LIVE_TEXT: Final = """(e.live OR EXISTS (SELECT 1 FROM entries shown
    WHERE shown.id = e.id AND shown.live AND shown.content_hash = e.content_hash))"""
_STOP_HOLDING: Final = """DELETE FROM revoked WHERE revocation = $1
    AND entry NOT IN (SELECT entry FROM quarantine WHERE state = 'forgetting')"""
_HELD_BY_ANOTHER: Final = """UPDATE quarantine
    SET revocation = (SELECT min(revoked.revocation) FROM revoked WHERE revoked.entry = quarantine.entry)
    WHERE revocation = $1 AND state IN ('held', 'withdrawn')
      AND (screened OR outdated OR EXISTS (SELECT 1 FROM revoked WHERE revoked.entry = quarantine.entry))
    RETURNING revocation"""
_RELEASED: Final = """UPDATE quarantine SET state = 'returning'
    WHERE revocation = $1 AND state IN ('held', 'withdrawn') RETURNING 1"""
_FORGET: Final = """UPDATE quarantine SET state = 'forgetting', revocation = $1
    WHERE entry IN (SELECT entry FROM revoked WHERE revocation = $1) RETURNING 1"""


async def revoke(
    conn: Connection, source: Source, *, principal: int, now: int, dry_run: bool
) -> tuple[RevocationResult, list[str]]:
    """Quarantine the entries as one revocation and return their ids.

    Without entries, and with `dry_run`, only count them.
    """
    if not dry_run:
        await locks.lock_trust(conn)
    counted, reached = await _reached(conn, source)
    if dry_run or not counted.entries:
        return counted, []
    revocation = await conn.fetchval(
        "INSERT INTO revocations (at, principal, criteria, entries) VALUES ($1, $2, $3, $4) RETURNING id",
        now,
        principal,
        json.dumps(source.criteria, ensure_ascii=False, sort_keys=True),
        len(reached),
    )
    await quarantine.hold_all(conn, reached, revocation=revocation, now=now)
    await record_erasure(conn, reached)
    return RevocationResult(revocation, counted.entries, counted.derived, counted.held_before), reached


async def undo(conn: Connection, revocation_id: int) -> UndoneRevocation:
    """Release the entries that nothing else keeps in quarantine. Raises `NotFound` for an unknown id."""
    await locks.lock_trust(conn)
    await _require(conn, revocation_id)
    await conn.execute(_STOP_HOLDING, revocation_id)
    left = await conn.fetch(_HELD_BY_ANOTHER, revocation_id)
    released = await conn.fetch(_RELEASED, revocation_id)
    others = sorted({other for (other,) in left if other is not None})
    return UndoneRevocation(len(released), len(left), tuple(others))


async def forget(conn: Connection, revocation_id: int) -> int:
    """Mark all entries of the revocation for erasure; return their number. Raises `NotFound`."""
    await locks.lock_trust(conn)
    await _require(conn, revocation_id)
    return len(await conn.fetch(_FORGET, revocation_id))


async def _require(conn: Connection, revocation: int) -> None:
    if await conn.fetchval("SELECT 1 FROM revocations WHERE id = $1", revocation) is None:
        raise NotFound(
            f"Revocation {revocation} does not exist.",
            hint="`agentctx get ID` shows the revocation of an entry.",
        )


async def _reached(conn: Connection, source: Source) -> tuple[RevocationResult, list[str]]:
    """Return the counts and ids of the source's entries and of everything derived from them."""
    parameters = Parameters()
    sql = _REACHED.format(condition=_condition(source, parameters))
    rows = await conn.fetch(sql, *parameters)
    derived = sum(is_derived for _, is_derived, _ in rows)
    counted = RevocationResult(None, len(rows) - derived, derived, sum(is_held for *_, is_held in rows))
    return counted, [entry for entry, *_ in rows]


def _condition(source: Source, parameters: Parameters) -> str:
    """Return the condition of versions of the source whose text is live, even if others changed its tags."""
    named = source.criteria
    parts = [
        _HAS_LIVE_TEXT,
        *(f"e.{name} = {parameters.add(named[name])}" for name in _EQUAL if name in named),
    ]
    if source.path is not None:
        folder = source.path.rstrip("/") + "/"
        path = "e.attributes->>'source'"
        parts.append(
            f"({path} = {parameters.add(source.path)} OR starts_with({path}, {parameters.add(folder)}))"
        )
    if source.since is not None:
        parts.append(f"e.updated >= {parameters.add(source.since)}")
    if source.until is not None:
        parts.append(f"e.updated < {parameters.add(source.until)}")
    return " AND ".join(parts)
