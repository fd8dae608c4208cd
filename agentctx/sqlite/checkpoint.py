"""Moving committed pages from the WAL into the database.

SQLite would do it inside a commit, and not report when the disk fails meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from agentctx.sqlite.driver import BUSY_TIMEOUT_MS, Connection

Mode: TypeAlias = Literal["PASSIVE", "FULL", "RESTART", "TRUNCATE"]

DUE_FRAMES: Final = 1_000
"""Pages that come into the WAL between two checkpoints."""
MANY_FRAMES: Final = 4 * DUE_FRAMES
"""Pages after which the WAL is restarted: 16 MiB."""
MOST_FRAMES: Final = 12 * DUE_FRAMES
"""Pages with which reads that last are ended for it, 48 MiB: the WAL stays below 64 MiB."""


@dataclass(frozen=True, slots=True)
class WalState:
    """How many pages the WAL holds, and how many of them are in the database already."""

    frames: int
    moved: int


class CheckpointSchedule:
    """Decides when pages are moved, and how: each time `DUE_FRAMES` have come.

    A reader keeps pages where they are for as long as it reads; trying after each commit would not hurry it.
    Readers that follow each other without a gap let all pages be moved, and still keep the WAL from beginning
    again: a long one is restarted, which waits for readers.
    """

    def __init__(self) -> None:
        self._tried_at = 0

    def due(self, state: WalState) -> Mode | None:
        """How to move pages now, if at all. That it was tried is remembered."""
        if state.frames < self._tried_at:  # the WAL has restarted
            self._tried_at = 0
        if state.frames - self._tried_at < DUE_FRAMES:
            return None
        is_long = state.frames >= MANY_FRAMES
        if state.moved == state.frames and not is_long:
            return None
        self._tried_at = state.frames
        return "RESTART" if is_long else "PASSIVE"


def wal_state(connection: Connection) -> WalState:
    """What the WAL holds. SQLite before 3.51 knows no NOOP and moves what it can.

    Raises:
        Error: SQLite could not look.
    """
    (_, frames, moved) = connection.execute("PRAGMA wal_checkpoint(NOOP)").fetchone()
    return WalState(max(frames, 0), max(moved, 0))


def checkpoint(connection: Connection, mode: Mode, *, patience_ms: int = BUSY_TIMEOUT_MS) -> bool:
    """Run a checkpoint; False when another connection blocked it for longer than `patience_ms`.

    Raises:
        Error: SQLite could not read, write or sync.
    """
    connection.execute(f"PRAGMA busy_timeout={patience_ms}")
    try:
        (busy, frames, moved) = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    return not busy and bool(frames == moved)
