"""The writing connection: checkpoints, reopening after a disk failure, a copy when its files are gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import structlog

from agentctx.errors import DatabaseMissing, StorageFailed
from agentctx.storage.file.checkpoint import MAX_FRAMES, CheckpointSchedule, Mode, WalState, checkpoint
from agentctx.storage.file.commit import is_disk_fault
from agentctx.storage.file.connection_thread import ConnectionThread, finish
from agentctx.storage.file.copy import copy_file, copy_pages, file_digest, keep_copy
from agentctx.storage.file.driver import Connection, Error
from agentctx.storage.file.open_files import OpenFiles
from agentctx.storage.file.readers import Readers
from agentctx.storage.file.recovery import Recovery, close_keeping_wal
from agentctx.storage.offline import RESCUED, restore_command
from agentctx.times import compact_time, wall_clock

T = TypeVar("T")

RESTART_PATIENCE_MS: Final = 100
"""Reads that answer questions end within this time; for longer ones, the checkpoint is postponed."""
LAST_PATIENCE_MS: Final = 3_000
"""Once long reads have been ended, the remaining ones finish within this time."""

log = structlog.get_logger("agentctx.sqlite")


class WritingConnection:
    """The only writing connection of a database. The caller must run one method at a time."""

    def __init__(self, thread: ConnectionThread, path: str | Path) -> None:
        self.thread = thread
        self.path = path = Path(path).absolute()
        self.others: Readers | None = None
        """The other connections of this process, all of which must be closed to reread the disk."""
        self.is_open = True
        """False while it is closed on purpose, with everything in the database file."""
        self.checkpoint_fault: Error | None = None
        """The disk's error at the last checkpoint, until the disk is well."""
        self._schedule = CheckpointSchedule()
        self.files = OpenFiles(path)
        self._rescued: Path | None = None
        """The copy of a database whose files are gone, complete and verified."""

    @classmethod
    async def open(cls, path: str | Path) -> WritingConnection:
        """Open a database, which is created if it is missing. Raises as `driver.open_connection`."""
        return cls(await ConnectionThread.open(path), path)

    async def empty_wal(self, *, patience_ms: int) -> bool:
        """Empty the WAL; return False if a reader blocked it for longer than `patience_ms`.

        Raises:
            StorageFailed.
        """
        return await self.thread.run(partial(self._checkpoint, mode="TRUNCATE", patience_ms=patience_ms))

    async def checkpoint_if_due(self, wal: WalState | None) -> None:
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
        if insists and self.others:
            await self.others.interrupt_long()
        patience_ms = LAST_PATIENCE_MS if insists else RESTART_PATIENCE_MS
        await self.thread.run(partial(self._checkpoint, mode=mode, patience_ms=patience_ms))

    def _checkpoint(self, connection: Connection, *, mode: Mode, patience_ms: int) -> bool:
        try:
            return checkpoint(connection, mode, patience_ms=patience_ms)
        except Error as error:
            if is_disk_fault(error):
                self.checkpoint_fault = error
            raise

    async def close_for(self, work: Callable[[Path], T]) -> T:
        """Close the connection and run `work` in a thread, even if cancelled; call `reopen` afterwards."""
        await self.thread.close()
        self.is_open = False
        self.files.forget_side_files()
        return await finish(asyncio.ensure_future(asyncio.to_thread(work, self.path)))

    async def reopen(self) -> None:
        """Open the connection again, if it is closed.

        Raises:
            StorageFailed: opening failed, or the database is not at its path.
        """
        if self.is_open:
            return
        if fault := self.files.loss():
            raise fault
        thread = await ConnectionThread.open(self.path)
        if fault := self.files.loss():
            await thread.close()
            raise fault
        self.thread, self.is_open = thread, True

    async def recover(self, recovery: Recovery) -> DatabaseMissing | None:
        """Reopen and verify the database; if its files are gone, copy it and return the error that says so.

        Raises:
            StorageFull, StorageFailed: this attempt failed.
        """
        if fault := await asyncio.to_thread(self.files.loss):
            return await self._rescue(fault)
        thread = self.thread
        try:
            if self.is_open:
                self.thread = await recovery.attempt(thread)
            else:
                await self.reopen()
        finally:
            if not thread.is_open:  # a new WAL is not another's
                self.files.forget_side_files()
        self.checkpoint_fault = None
        return None

    async def _rescue(self, fault: StorageFailed) -> DatabaseMissing:
        """Write a verified copy beside the path, unless it is still there after an `rm -r` of the folder."""
        try:
            if self._rescued is None or not await asyncio.to_thread(self._rescued.exists):
                self._rescued = await self._copied()
            await asyncio.to_thread(self.files.remove_side_files)
        except OSError as error:
            raise StorageFailed(
                f"{fault.message} The copy cannot be written: {error.strerror or error}.",
                hint="Make its folder writable for the daemon, which keeps trying.",
            ) from error
        return DatabaseMissing(
            f"{fault.message} All that was saved is in {self._rescued}.",
            hint=f"Run `{restore_command(self._rescued)}`, then start the daemon again.",
        )

    async def _copied(self) -> Path:
        target = self.path.with_name(f"{self.path.name}{RESCUED}{compact_time(wall_clock())}")
        await asyncio.to_thread(target.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
        if self.thread.is_open:
            await self.thread.run(partial(copy_pages, target=target))
            await asyncio.to_thread(keep_copy, target)
        else:
            await asyncio.to_thread(self._copy_closed, target)
        return target

    def _copy_closed(self, target: Path) -> None:
        """Copy the file that is left open without a connection; everything is in it."""
        source = self.files.source
        if source is None:
            raise StorageFailed(f"{self.path} is gone, and was not open.", hint="Restore a backup.")
        copy_file(source, target, digest=file_digest(source))

    async def close(self, *, is_sound: bool) -> None:
        """Close the connection, after copying a database whose files are gone. `is_sound`: the disk works."""
        fault = await asyncio.to_thread(self.files.loss)
        if fault is None and not is_sound:
            await close_keeping_wal(self.thread, self.path)
        else:
            if fault is not None:
                await self._rescue_at_last(fault)
            await self.thread.close()
        self.files.close()

    async def _rescue_at_last(self, fault: StorageFailed) -> None:
        try:
            await self._rescue(fault)
        except StorageFailed as error:
            with contextlib.suppress(OSError):  # the log may be on the failing disk
                log.critical("database_not_rescued", problem=error.message, hint=error.hint)
