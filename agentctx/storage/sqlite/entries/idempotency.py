"""Remembered results, so that a repeated save is done only once. Runs in the caller's transaction."""

from __future__ import annotations

from agentctx.errors import IdempotencyKeyReused
from agentctx.sqlite.driver import Connection
from agentctx.storage.records import Change, IdempotencyKey, Saved


def earlier(conn: Connection, key: IdempotencyKey) -> tuple[str, int, Change] | None:
    """Return id, version and change of the save that was made with this key; None if there is none.

    Raises:
        IdempotencyKeyReused: the key was used with another digest.
    """
    row = conn.execute(
        "SELECT digest, entry, version, change FROM idempotency WHERE principal = ? AND key = ?",
        (key.principal, key.key),
    ).fetchone()
    if row is None:
        return None
    digest, entry_id, version, change = row
    if digest != key.digest:
        raise IdempotencyKeyReused("This Idempotency-Key was used for another request.")
    return entry_id, version, Change(change)


def remember(conn: Connection, key: IdempotencyKey, saved: Saved, now: int) -> None:
    conn.execute(
        """INSERT INTO idempotency (principal, key, digest, entry, version, change, created)
           VALUES (?, ?, ?, ?, ?, ?, ?)""",
        (key.principal, key.key, key.digest, saved.id, saved.version, saved.change, now),
    )
