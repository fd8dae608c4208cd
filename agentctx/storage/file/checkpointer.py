"""Checkpoints through the writing connection, when the WAL is long and on request."""

from __future__ import annotations

from functools import partial
from typing import Final

from agentctx.storage.file.checkpoint import MAX_FRAMES, CheckpointSchedule, Mode, WalState, checkpoint
from agentctx.storage.file.commit import is_disk_fault
from agentctx.storage.file.driver import Connection, Error
from agentctx.storage.file.writing_connection import WritingConnection

RESTART_PATIENCE_MS: Final = 100
"""Reads that answer questions end within this time; for longer ones, the checkpoint is postponed."""
LAST_PATIENCE_MS: Final = 3_000
"""Once long reads have been ended, the remaining ones finish within this time."""


class Checkpointer:
    """Checkpoints the database. Use it only while nothing else uses the connection."""

    def __init__(self, connection: WritingConnection) -> None:
        self.fault: Error | None = None
        """The disk's error at the last checkpoint; recovery resets it."""
        self._connection = connection
        self._schedule = CheckpointSchedule()

    async def empty_wal(self, *, patience_ms: int) -> bool:
        """Empty the WAL; return False if a reader blocked it for longer than `patience_ms`.

        Raises:
            StorageFailed.
        """
        return await self._connection.thread.run(partial(self._run, mode="TRUNCATE", patience_ms=patience_ms))

    async def move_if_due(self, wal: WalState | None) -> None:
        """Checkpoint after a commit if enough pages were added. Saves wait only if the WAL is too long.

        `wal` is None if SQLite could not read its state; the checkpoint will then report the fault itself.

        Raises:
            StorageFull: committed pages stay in the WAL.
            StorageFailed.
        """
        mode = self._schedule.due(wal) if wal else "PASSIVE"
        if mode is None:
            return
        insists = wal is not None and wal.frames >= MAX_FRAMES
        if insists and self._connection.others:
            await self._connection.others.interrupt_long()
        patience_ms = LAST_PATIENCE_MS if insists else RESTART_PATIENCE_MS
        await self._connection.thread.run(partial(self._run, mode=mode, patience_ms=patience_ms))

    def _run(self, connection: Connection, *, mode: Mode, patience_ms: int) -> bool:
        try:
            return checkpoint(connection, mode, patience_ms=patience_ms)
        except Error as error:
            if is_disk_fault(error):
                self.fault = error
            raise
