"""The record of what was removed: who, when and which id; never a key or a text."""

from __future__ import annotations

from typing import Final

from agentctx.sqlite.driver import Connection

FORGET: Final = "forget"
"""Somebody asked for it."""
EXPIRE: Final = "expire"
"""Its time was over."""


def record(
    conn: Connection, action: str, entry_id: str, collection: str, *, principal: int | None, now: int
) -> None:
    """Add a row, in the transaction of the deed. `principal` None is the service itself."""
    conn.execute(
        "INSERT INTO audit (at, principal, action, entry, collection) VALUES (?, ?, ?, ?, ?)",
        (now, principal, action, entry_id, collection),
    )


def was_forgotten(conn: Connection, entry_id: str) -> bool:
    """Whether somebody had the entry removed; whoever brings entries back must leave it out."""
    row = conn.execute("SELECT 1 FROM audit WHERE entry = ? AND action = ?", (entry_id, FORGET)).fetchone()
    return row is not None
