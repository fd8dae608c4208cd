"""Quarantine within other changes and reads. Every function runs inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from agentctx.storage import quarantine
from agentctx.storage.file.driver import Connection
from agentctx.storage.sqlite import sql
from agentctx.storage.steps import Rows


def hold(
    conn: Connection, entry_id: str, *, screened: bool = False, revocation: int | None = None, now: int
) -> None:
    sql.follow(conn, quarantine.hold([entry_id], screened=screened, revocation=revocation, now=now))


def inherit(conn: Connection, entry_id: str, namespace: str, sources: Sequence[str], *, now: int) -> None:
    sql.follow(conn, quarantine.inherit(entry_id, namespace, sources, now=now))


def is_held(conn: Connection, entry_id: str) -> bool:
    return sql.follow(conn, quarantine.is_held(entry_id))


def among(conn: Connection, entries: Sequence[str]) -> frozenset[str]:
    """Return the given entries that are in quarantine, whatever the state of their row."""
    held = sql.execute(conn, Rows("SELECT entry FROM quarantine WHERE entry IN ?ids", (entries,)))
    return frozenset(row[0] for row in held)


def indexed_chunks(conn: Connection, namespace: str, limit: int) -> frozenset[int] | None:
    """Return quarantined chunks that are still in the indexes; None if there are more than `limit`."""
    rows = conn.execute(
        """SELECT chunks.id FROM quarantine CROSS JOIN entries e ON e.id = quarantine.entry AND e.live = 1
           CROSS JOIN chunks ON chunks.entry = e.seq
           WHERE quarantine.state <> 'withdrawn' AND e.namespace = ? LIMIT ?""",
        (namespace, limit + 1),
    ).fetchall()
    return frozenset(row[0] for row in rows) if len(rows) <= limit else None
