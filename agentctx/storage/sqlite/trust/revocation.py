"""Quarantines all entries of a source, and everything derived from them.

Every function runs inside the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from agentctx.errors import NotFound
from agentctx.storage.file.driver import Connection
from agentctx.storage.sqlite.search.filters import ATTRIBUTES, Condition
from agentctx.storage.sqlite.trust import quarantine
from agentctx.storage.trust import RevocationResult, Source, UndoneRevocation

_EQUAL: Final = ("namespace", "agent", "session", "principal", "origin", "trust")

_REACHED: Final = """CREATE TEMP TABLE reached (
      entry TEXT PRIMARY KEY, steps INTEGER NOT NULL
    ) WITHOUT ROWID"""
"""Ids stay in SQLite: a source may have a hundred thousand entries, and the reply is due in a second."""
_MADE_OF: Final = """INSERT OR IGNORE INTO temp.reached
    SELECT derivations.entry, :steps + 1 FROM temp.reached AS made
    CROSS JOIN derivations ON derivations.source = made.entry WHERE made.steps = :steps"""
_HAS_LIVE_TEXT: Final = """(e.live = 1 OR EXISTS (SELECT 1 FROM entries shown
    WHERE shown.id = e.id AND shown.live = 1 AND shown.content_hash = e.content_hash))"""
_STOP_HOLDING: Final = """DELETE FROM revoked WHERE revocation = ?
    AND entry NOT IN (SELECT entry FROM quarantine WHERE state = 'forgetting')"""
_HELD_BY_ANOTHER: Final = """UPDATE quarantine
    SET revocation = (SELECT MIN(revoked.revocation) FROM revoked WHERE revoked.entry = quarantine.entry)
    WHERE revocation = ? AND state IN ('held', 'withdrawn')
      AND (screened = 1 OR outdated = 1
        OR EXISTS (SELECT 1 FROM revoked WHERE revoked.entry = quarantine.entry))
    RETURNING revocation"""
_COUNTS: Final = """SELECT COALESCE(SUM(steps = 0), 0), COALESCE(SUM(steps > 0), 0),
      (SELECT COUNT(*) FROM temp.reached AS held
       CROSS JOIN quarantine ON quarantine.entry = held.entry AND quarantine.state <> 'returning'
         AND (quarantine.screened = 1 OR quarantine.revocation IS NOT NULL))
    FROM temp.reached"""


def revoke(
    conn: Connection, source: Source, *, principal: int, now: int, dry_run: bool
) -> tuple[RevocationResult, list[str]]:
    """Quarantine a source's entries as one revocation, and return their ids.

    Without any, and with `dry_run`, only count them.
    """
    with _reached(conn, source):
        counted = RevocationResult(None, *conn.execute(_COUNTS).fetchone())
        if dry_run or not counted.entries:
            return counted, []
        criteria = json.dumps(source.criteria, ensure_ascii=False, sort_keys=True)
        revocation = conn.execute(
            "INSERT INTO revocations (at, principal, criteria, entries) VALUES (?, ?, ?, ?)",
            (now, principal, criteria, counted.entries + counted.derived),
        ).lastrowid
        assert revocation is not None  # noqa: S101 - an INSERT always has one; this is for the type checker
        quarantine.quarantine_reached(conn, revocation=revocation, now=now)
        held = [row[0] for row in conn.execute("SELECT entry FROM temp.reached")]
    return replace(counted, revocation=revocation), held


def undo(conn: Connection, revocation: int) -> UndoneRevocation:
    """Release entries that nothing else keeps in quarantine. Raises `NotFound` for an unknown revocation."""
    _require(conn, revocation)
    conn.execute(_STOP_HOLDING, (revocation,))
    left = conn.execute(_HELD_BY_ANOTHER, (revocation,)).fetchall()
    released = conn.execute(
        "UPDATE quarantine SET state = 'returning' WHERE revocation = ? AND state IN ('held', 'withdrawn')",
        (revocation,),
    )
    others = sorted({other for (other,) in left if other is not None})
    return UndoneRevocation(int(released.rowcount), len(left), tuple(others))


def forget(conn: Connection, revocation: int) -> int:
    """Mark all entries of a revocation for erasure; return how many. Raises `NotFound`."""
    _require(conn, revocation)
    forgetting = conn.execute(
        """UPDATE quarantine SET state = 'forgetting', revocation = :revocation
           WHERE entry IN (SELECT entry FROM revoked WHERE revocation = :revocation)""",
        {"revocation": revocation},
    )
    return int(forgetting.rowcount)


def _require(conn: Connection, revocation: int) -> None:
    if conn.execute("SELECT 1 FROM revocations WHERE id = ?", (revocation,)).fetchone() is None:
        raise NotFound(
            f"Revocation {revocation} does not exist.",
            hint="`agentctx get ID` shows the revocation of an entry.",
        )


@contextmanager
def _reached(conn: Connection, source: Source) -> Iterator[None]:
    """Fill `temp.reached` for the block with the ids of the source's entries (0 steps away), and of all
    entries derived from them, directly or not.
    """
    conn.execute(_REACHED)
    try:
        condition = _condition(source)
        conn.execute(
            f"INSERT OR IGNORE INTO temp.reached SELECT e.id, 0 FROM entries e WHERE {condition.sql}",  # noqa: S608 - built from constants below
            condition.parameters,
        )
        steps = 0
        while conn.execute(_MADE_OF, {"steps": steps}).rowcount:
            steps += 1
        yield
    finally:
        # An error that ended the transaction has also dropped the table.
        conn.execute("DROP TABLE IF EXISTS temp.reached")


def _condition(source: Source) -> Condition:
    """Return the condition of versions of the source whose text is live, even if others changed its tags."""
    named = source.criteria
    parts: list[tuple[str, tuple[Any, ...]]] = [(_HAS_LIVE_TEXT, ())]
    parts += [(f"e.{name} = ?", (named[name],)) for name in _EQUAL if name in named]
    if source.path is not None:
        folder = source.path.rstrip("/") + "/"
        found = f"json_extract({ATTRIBUTES}, '$.source')"
        # "0" comes right after "/", so everything below the folder sorts between them.
        parts.append(
            (f"({found} = ? OR {found} >= ? AND {found} < ?)", (source.path, folder, folder[:-1] + "0"))
        )
    if source.since is not None:
        parts.append(("e.updated >= ?", (source.since,)))
    if source.until is not None:
        parts.append(("e.updated < ?", (source.until,)))
    return Condition(
        " AND ".join(sql for sql, _ in parts),
        tuple(parameter for _, parameters in parts for parameter in parameters),
    )
