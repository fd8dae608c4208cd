"""Moves committed pages from the WAL into the database.

SQLite would do this inside a commit, without reporting a disk failure in the meantime.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from agentctx.storage.file.driver import BUSY_TIMEOUT_MS, Connection, Error

Mode: TypeAlias = Literal["PASSIVE", "FULL", "RESTART", "TRUNCATE"]

DUE_FRAMES: Final = 1_000
"""How many pages may be added to the WAL between two checkpoints."""
MANY_FRAMES: Final = 4 * DUE_FRAMES
"""Pages after which the WAL is restarted: 16 MiB."""
MAX_FRAMES: Final = 12 * DUE_FRAMES
"""Pages after which long reads are ended for a checkpoint, 48 MiB, so that the WAL stays below 64 MiB."""


@dataclass(frozen=True, slots=True)
class WalState:
    """How many pages the WAL holds, and how many of them are already in the database."""

    frames: int
    moved: int


class CheckpointSchedule:
    """Decides when and how to checkpoint: after every `DUE_FRAMES` new pages.

    A reader pins its pages until it ends, so trying after every commit would not help. Overlapping readers
    let all pages be moved, but keep the WAL from starting over: when it is long, it is restarted, which waits
    for readers.
    """

    def __init__(self) -> None:
        self._tried_at = 0

    def due(self, state: WalState) -> Mode | None:
        """Return the mode of the checkpoint that is due now, or None, and remember the attempt."""
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
    """Return the state of the WAL. SQLite before 3.51 has no NOOP and checkpoints what it can.

    Raises:
        Error: SQLite could not read the state.
    """
    (_, frames, moved) = connection.execute("PRAGMA wal_checkpoint(NOOP)").fetchone()
    return WalState(max(frames, 0), max(moved, 0))


def readable_wal_state(connection: Connection) -> WalState | None:
    """Return the state of the WAL; None if SQLite could not read it."""
    try:
        return wal_state(connection)
    except Error:
        return None


def checkpoint(connection: Connection, mode: Mode, *, patience_ms: int = BUSY_TIMEOUT_MS) -> bool:
    """Run a checkpoint; return False if another connection blocked it for longer than `patience_ms`.

    Raises:
        Error: SQLite could not read, write or sync.
    """
    connection.execute(f"PRAGMA busy_timeout={patience_ms}")
    try:
        (busy, frames, moved) = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    return not busy and bool(frames == moved)
