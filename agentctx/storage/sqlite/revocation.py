"""Holding back everything of a source, and all that was made of it.

Every function runs inside the caller's transaction.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from agentctx.errors import NotFound
from agentctx.sqlite.driver import Connection
from agentctx.storage.sqlite import quarantine
from agentctx.storage.sqlite.filters import Condition
from agentctx.storage.trust import Revoked, Source

_EQUAL: Final = ("namespace", "agent", "session", "principal", "origin", "trust")

_MADE_OF: Final = """SELECT DISTINCT derivations.entry FROM json_each(?) AS source
    CROSS JOIN derivations ON derivations.source = source.value"""
_HELD: Final = """SELECT COUNT(*) FROM json_each(?) AS reached
    CROSS JOIN quarantine ON quarantine.entry = reached.value AND quarantine.state <> 'returning'"""


def count(conn: Connection, source: Source) -> Revoked:
    """What a revocation would hold back; changes nothing."""
    own, derived = _reached(conn, source)
    return _counted(conn, own, derived)


def revoke(conn: Connection, source: Source, *, principal: int, now: int) -> tuple[Revoked, list[str]]:
    """Hold all of it back, as one revocation, and return the ids; none is made where there is nothing."""
    own, derived = _reached(conn, source)
    counted = _counted(conn, own, derived)
    if not own:
        return counted, []
    reached = sorted(own + derived)
    revocation = conn.execute(
        "INSERT INTO revocations (at, principal, criteria, entries) VALUES (?, ?, ?, ?)",
        (
            now,
            principal,
            json.dumps(source.criteria, ensure_ascii=False, sort_keys=True),
            len(reached),
        ),
    ).lastrowid
    assert revocation is not None  # noqa: S101 - an INSERT always has one; this is for the type checker
    # In their order rows are added at the end of the tree.
    quarantine.hold_all(conn, reached, revocation=revocation, now=now)
    return replace(counted, revocation=revocation), reached


def held_by(conn: Connection, revocation: int) -> list[str]:
    """Ids of the entries that it holds. Raises `NotFound` when there is no such revocation."""
    if conn.execute("SELECT 1 FROM revocations WHERE id = ?", (revocation,)).fetchone() is None:
        raise NotFound(
            f"there is no revocation {revocation}", hint="`agentctx get ID` names that of an entry."
        )
    rows = conn.execute("SELECT entry FROM quarantine WHERE revocation = ?", (revocation,))
    return [row[0] for row in rows]


def undo(conn: Connection, revocation: int) -> int:
    """Release what it holds, but what is flagged as well; returns how many it held."""
    count = len(held_by(conn, revocation))
    conn.execute(
        """UPDATE quarantine SET revocation = NULL
           WHERE revocation = ? AND screened = 1 AND state <> 'forgetting'""",
        (revocation,),
    )
    conn.execute(
        "UPDATE quarantine SET state = 'returning' WHERE revocation = ? AND state <> 'forgetting'",
        (revocation,),
    )
    return count


def forget(conn: Connection, revocation: int) -> int:
    """Have all that it holds erased; returns how many."""
    count = len(held_by(conn, revocation))
    conn.execute("UPDATE quarantine SET state = 'forgetting' WHERE revocation = ?", (revocation,))
    return count


def _reached(conn: Connection, source: Source) -> tuple[list[str], list[str]]:
    """Ids of the source's entries, and of all that was made of them, directly or not."""
    condition = _condition(source)
    select = f"SELECT e.id FROM entries e WHERE {condition.sql}"  # noqa: S608 - built from constants below
    own = [row[0] for row in conn.execute(select, condition.parameters)]
    known, derived, newest = set(own), list[str](), own
    while newest:
        made = conn.execute(_MADE_OF, (json.dumps(newest),))
        newest = [row[0] for row in made if row[0] not in known]
        known.update(newest)
        derived += newest
    return own, derived


def _counted(conn: Connection, own: list[str], derived: list[str]) -> Revoked:
    (held,) = conn.execute(_HELD, (json.dumps(own + derived),)).fetchone()
    return Revoked(None, len(own), len(derived), held)


def _condition(source: Source) -> Condition:
    named = source.criteria
    parts: list[tuple[str, tuple[Any, ...]]] = [("e.live = 1", ())]
    parts += [(f"e.{name} = ?", (named[name],)) for name in _EQUAL if name in named]
    if source.path is not None:
        folder = source.path.rstrip("/") + "/"
        found = "json_extract(e.attributes, '$.source')"
        # "0" comes right after "/": what begins with the folder lies between.
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
