"""Quarantine of entries. Every function runs inside the caller's transaction.

A row hides its entry as soon as it is committed. Settling then removes the entry's chunks from the tables of
words and vectors. Entries whose file says something else (`outdated`, see `file_states`) are held back in the
same way, but do not count as quarantined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentctx_postgresql.driver import Connection

NOT_QUARANTINED: Final = "NOT EXISTS (SELECT 1 FROM quarantine WHERE quarantine.entry = e.id)"

IS_QUARANTINED: Final = "(quarantine.screened OR quarantine.revocation IS NOT NULL)"
"""Whether a row has another reason than the entry's file."""
# Once an entry is being released, its earlier reasons no longer count.
_HOLD: Final = """INSERT INTO quarantine AS q (entry, screened, revocation, outdated, state, since)
    VALUES ($1, $2, $3, $4, 'held', $5)
    ON CONFLICT (entry) DO UPDATE SET
      screened = CASE q.state WHEN 'returning' THEN excluded.screened
                              ELSE q.screened OR excluded.screened END,
      revocation = CASE q.state WHEN 'returning' THEN excluded.revocation
                                ELSE coalesce(q.revocation, excluded.revocation) END,
      outdated = CASE q.state WHEN 'returning' THEN excluded.outdated
                              ELSE q.outdated OR excluded.outdated END,
      state = CASE q.state WHEN 'returning' THEN 'held' ELSE q.state END"""

_RELEASE: Final = f"""UPDATE quarantine SET
      screened = screened AND NOT outdated,
      revocation = CASE WHEN outdated THEN NULL ELSE revocation END,
      state = CASE WHEN outdated THEN state ELSE 'returning' END
    WHERE entry = $1 AND state <> 'forgetting' AND {IS_QUARANTINED} RETURNING TRUE"""  # noqa: S608 - constant
_GIVE_BACK: Final = f"""UPDATE quarantine SET
      outdated = NOT {IS_QUARANTINED},
      state = CASE WHEN {IS_QUARANTINED} THEN state ELSE 'returning' END
    WHERE entry = ANY ($1::text[]) AND outdated AND state IN ('held', 'withdrawn')"""  # noqa: S608 - constant
_HOLD_ALL: Final = _HOLD.replace(
    "VALUES ($1, $2, $3, $4, 'held', $5)", "SELECT unnest($1::text[]), $2, $3, $4, 'held', $5"
)


async def hold(
    conn: Connection, entry_id: str, *, screened: bool = False, revocation: int | None = None, now: int
) -> None:
    """Put an entry into quarantine, or add a reason for keeping it there."""
    await conn.execute(_HOLD, entry_id, screened, revocation, False, now)
    if revocation is not None:
        await conn.execute(
            "INSERT INTO revoked (entry, revocation) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            entry_id,
            revocation,
        )


async def inherit(
    conn: Connection, entry_id: str, namespace: str, sources: Sequence[str], *, now: int
) -> None:
    """Quarantine an entry derived from quarantined ones, for the same reasons.

    A source outside the namespace counts as unknown: otherwise the answer would reveal its quarantine.
    """
    rows = await conn.fetch(
        """SELECT DISTINCT screened, coalesce(revoked.revocation, quarantine.revocation)
           FROM quarantine LEFT JOIN revoked ON revoked.entry = quarantine.entry
           WHERE quarantine.entry = ANY ($1::text[]) AND state <> 'returning'
             AND (screened OR quarantine.revocation IS NOT NULL)
             AND EXISTS (SELECT 1 FROM entries e
                         WHERE e.id = quarantine.entry AND e.live AND e.namespace = $2)""",
        list(sources),
        namespace,
    )
    for screened, revocation in rows:
        await hold(conn, entry_id, screened=screened, revocation=revocation, now=now)


async def is_held(conn: Connection, entry_id: str) -> bool:
    return await conn.fetchval("SELECT 1 FROM quarantine WHERE entry = $1", entry_id) is not None


async def hold_all(conn: Connection, entry_ids: Sequence[str], *, revocation: int, now: int) -> None:
    """Put entries into quarantine for a revocation, in one statement."""
    await conn.execute(_HOLD_ALL, list(entry_ids), False, revocation, False, now)
    await conn.execute(
        "INSERT INTO revoked (entry, revocation) SELECT unnest($1::text[]), $2 ON CONFLICT DO NOTHING",
        list(entry_ids),
        revocation,
    )


async def count(conn: Connection) -> int:
    """Count the live entries in quarantine."""
    return int(
        await conn.fetchval(
            f"""SELECT count(*) FROM quarantine WHERE state <> 'returning' AND {IS_QUARANTINED}
                AND EXISTS (SELECT 1 FROM entries e WHERE e.id = quarantine.entry AND e.live)"""  # noqa: S608 - constant
        )
    )


async def release(conn: Connection, entry: str) -> bool:
    """Release an entry, whatever the reason; False if it is not in quarantine or is being forgotten.

    An entry whose file says something else stays out of the answers.
    """
    changed = await conn.fetchval(_RELEASE, entry)
    if changed:
        await conn.execute("DELETE FROM revoked WHERE entry = $1", entry)
    return bool(changed)


async def hold_back(conn: Connection, entry_ids: Sequence[str], *, now: int) -> None:
    """Keep entries out of the answers whose file says something else."""
    await conn.execute(_HOLD_ALL, list(entry_ids), False, None, True, now)


async def give_back(conn: Connection, entry_ids: Sequence[str]) -> None:
    """Let entries back into the answers whose file says it again, unless something else holds them."""
    await conn.execute(_GIVE_BACK, list(entry_ids))
