"""Entries that answers exclude. Every function runs inside the caller's transaction.

A row hides its entry from its commit on, through `filters.entry_condition`. `engine.settle` then removes the
chunks from the indexes, which keeps searches as fast as before. Entries whose file says something else
(`outdated`, see `file_states`) are held back in the same way, but do not count as quarantined.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from agentctx.storage.file.driver import Connection

NOT_QUARANTINED: Final = "NOT EXISTS (SELECT 1 FROM quarantine WHERE quarantine.entry = e.id)"

IS_QUARANTINED: Final = "(quarantine.screened = 1 OR quarantine.revocation IS NOT NULL)"
"""Whether a row has another reason than the entry's file."""
_ROWS: Final = """INSERT INTO quarantine (entry, screened, revocation, outdated, state, since)"""
# The reasons of an entry that was just released no longer count.
_OR_ANOTHER_REASON: Final = """ON CONFLICT (entry) DO UPDATE SET
      screened = CASE state WHEN 'returning' THEN excluded.screened ELSE max(screened, excluded.screened) END,
      revocation = CASE state WHEN 'returning' THEN excluded.revocation
                              ELSE coalesce(revocation, excluded.revocation) END,
      outdated = CASE state WHEN 'returning' THEN excluded.outdated ELSE max(outdated, excluded.outdated) END,
      state = CASE state WHEN 'returning' THEN 'held' ELSE state END"""
_HOLD: Final = f"{_ROWS} VALUES (?, ?, ?, ?, 'held', ?) {_OR_ANOTHER_REASON}"
_HOLD_REACHED: Final = f"""{_ROWS} SELECT entry, 0, ?, 0, 'held', ? FROM temp.reached WHERE TRUE
    ORDER BY entry {_OR_ANOTHER_REASON}"""  # noqa: S608 - of the constants above

_RELEASE: Final = f"""UPDATE quarantine SET
      screened = CASE outdated WHEN 1 THEN 0 ELSE screened END,
      revocation = CASE outdated WHEN 1 THEN NULL ELSE revocation END,
      state = CASE outdated WHEN 1 THEN state ELSE 'returning' END
    WHERE entry = ? AND state <> 'forgetting' AND {IS_QUARANTINED}"""  # noqa: S608 - constant
_GIVE_BACK: Final = f"""UPDATE quarantine SET
      outdated = CASE WHEN {IS_QUARANTINED} THEN 0 ELSE 1 END,
      state = CASE WHEN {IS_QUARANTINED} THEN state ELSE 'returning' END
    WHERE entry = ? AND outdated = 1 AND state IN ('held', 'withdrawn')"""  # noqa: S608 - constant


def hold(
    conn: Connection,
    entry_id: str,
    *,
    screened: bool = False,
    revocation: int | None = None,
    outdated: bool = False,
    now: int,
) -> None:
    """Put an entry into quarantine, or add a reason if it is already there."""
    conn.execute(_HOLD, (entry_id, int(screened), revocation, int(outdated), now))
    if revocation is not None:
        conn.execute(
            "INSERT OR IGNORE INTO revoked (entry, revocation) VALUES (?, ?)", (entry_id, revocation)
        )


def quarantine_reached(conn: Connection, *, revocation: int, now: int) -> None:
    """Quarantine the entries in `temp.reached` (`revocation.py`), in one statement."""
    conn.execute(_HOLD_REACHED, (revocation, now))
    conn.execute(
        "INSERT OR IGNORE INTO revoked (entry, revocation) SELECT entry, ? FROM temp.reached", (revocation,)
    )


def inherit(conn: Connection, entry_id: str, namespace: str, sources: Sequence[str], *, now: int) -> None:
    """Quarantine an entry derived from quarantined sources, for the same reasons.

    A source outside the namespace counts as unknown; else the reply would reveal that it is quarantined.
    """
    rows = conn.execute(
        """SELECT DISTINCT screened, coalesce(revoked.revocation, quarantine.revocation)
           FROM quarantine LEFT JOIN revoked ON revoked.entry = quarantine.entry
           WHERE quarantine.entry IN (SELECT value FROM json_each(?)) AND state <> 'returning'
             AND (screened = 1 OR quarantine.revocation IS NOT NULL)
             AND EXISTS (SELECT 1 FROM entries e
                         WHERE e.id = quarantine.entry AND e.live = 1 AND e.namespace = ?)""",
        (json.dumps(list(sources)), namespace),
    ).fetchall()
    for screened, revocation in rows:
        hold(conn, entry_id, screened=bool(screened), revocation=revocation, now=now)


def count(conn: Connection) -> int:
    """Return the number of entries in quarantine, except those that were forgotten there."""
    (found,) = conn.execute(
        f"""SELECT COUNT(*) FROM quarantine WHERE state <> 'returning' AND {IS_QUARANTINED}
           AND EXISTS (SELECT 1 FROM entries e WHERE e.id = quarantine.entry AND e.live = 1)"""  # noqa: S608 - constant
    ).fetchone()
    return int(found)


def among(conn: Connection, entries: Sequence[str]) -> frozenset[str]:
    """Return the given entries that are in quarantine, whatever the state of their row."""
    rows = conn.execute(
        "SELECT entry FROM quarantine WHERE entry IN (SELECT value FROM json_each(?))",
        (json.dumps(list(entries)),),
    )
    return frozenset(row[0] for row in rows)


def is_held(conn: Connection, entry_id: str) -> bool:
    return conn.execute("SELECT 1 FROM quarantine WHERE entry = ?", (entry_id,)).fetchone() is not None


def indexed_chunks(conn: Connection, namespace: str, limit: int) -> frozenset[int] | None:
    """Return quarantined chunks that are still in the indexes; None if there are more than `limit`."""
    rows = conn.execute(
        """SELECT chunks.id FROM quarantine CROSS JOIN entries e ON e.id = quarantine.entry AND e.live = 1
           CROSS JOIN chunks ON chunks.entry = e.seq
           WHERE quarantine.state <> 'withdrawn' AND e.namespace = ? LIMIT ?""",
        (namespace, limit + 1),
    ).fetchall()
    return frozenset(row[0] for row in rows) if len(rows) <= limit else None


def release(conn: Connection, entry_id: str) -> bool:
    """Release an entry, whatever holds it; return False if nothing does, or it is being forgotten.

    An entry whose file says something else stays out of the answers.
    """
    changed = conn.execute(_RELEASE, (entry_id,))
    if changed.rowcount:
        conn.execute("DELETE FROM revoked WHERE entry = ?", (entry_id,))
    return bool(changed.rowcount)


def give_back(conn: Connection, entry_id: str) -> None:
    """Let an entry back into the answers whose file says it again, unless something else holds it."""
    conn.execute(_GIVE_BACK, (entry_id,))
