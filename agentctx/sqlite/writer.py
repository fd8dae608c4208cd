"""The one writing connection, with group commit: callers that wait at the same time share one fsync."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import structlog

from agentctx.errors import StorageClosed, StorageFailed, StorageFull
from agentctx.sqlite.checkpoint import WalState
from agentctx.sqlite.checkpointer import Checkpointer
from agentctx.sqlite.commit import (
    FailedWrite,
    Outcome,
    WriteFunction,
    error_for_caller,
    is_disk_fault,
)
from agentctx.sqlite.connection_thread import finish
from agentctx.sqlite.driver import BUSY_TIMEOUT_MS, Connection
from agentctx.sqlite.recovery import Pausable, Recovery, pause_s
from agentctx.sqlite.reserve import Reserve, Write, commit_within
from agentctx.sqlite.running_copy import RunningCopy
from agentctx.sqlite.write_groups import WaitingWrite, WriteGroups
from agentctx.sqlite.writing_connection import WritingConnection
from agentctx.telemetry.base import NO_TELEMETRY, Telemetry

log = structlog.get_logger("agentctx.sqlite")

T = TypeVar("T")


class Writer:
    """Runs functions that write, each atomically, and answers when they are on disk.

    Functions that wait together share one transaction and one commit. A function must be re-runnable and
    touch nothing but its connection: when one of a group raises, all are run again, each in a savepoint;
    when the whole group is lost (disk full, a failed commit), each is run again, alone.

    When the disk fails, or the files of the database are no longer at their path, the writer refuses
    everything until it has brought them back, reopened and verified the database, which it does
    automatically, less and less often.
    """

    def __init__(
        self,
        connection: WritingConnection,
        telemetry: Telemetry = NO_TELEMETRY,
        reserve_bytes: int = 0,
    ) -> None:
        self.commits = 0
        """Commits since it was opened."""
        self.fault: StorageFailed | None = None
        """Why nothing can be written at present."""
        self._loss: StorageFailed | None = None
        self._connection = connection
        self._reserve = Reserve(connection.path.parent, reserve_bytes)
        self._is_sound = asyncio.Event()
        self._is_sound.set()
        self._stopped = asyncio.Event()
        self._telemetry = telemetry
        self._groups = WriteGroups()
        self._checkpoints = Checkpointer(connection, self._reserve)
        self._wake = asyncio.Event()
        self._closed = False
        self._ending: asyncio.Future[None] | None = None
        self._in_use = asyncio.Lock()
        self._copy: RunningCopy | None = None
        self._worker = asyncio.create_task(self._work(), name="sqlite-writer")

    @classmethod
    async def open(
        cls, path: str | Path, telemetry: Telemetry = NO_TELEMETRY, reserve_bytes: int = 0
    ) -> Self:
        """Open the writing connection of a database, which is made if it is missing.

        `reserve_bytes` of the disk are kept for removing things (`keep_reserve`).

        Raises:
            DriverUnsuitable, StorageFailed: as `driver.open_connection`.
        """
        return cls(await WritingConnection.open(path), telemetry, reserve_bytes)

    def recover_with(self, others: Pausable) -> None:
        """Name the other connections of this process: all must be closed to reread the disk."""
        self._connection.others = others

    async def run(self, fn: WriteFunction[T], *, uses_reserve: bool = False) -> T:
        """Run one function in a transaction and return its result once that is committed.

        The function opens and ends no transaction itself. When it raises, its own changes are undone and
        its neighbours' changes stay. A cancelled caller does not stop it: it may still be committed. With
        `uses_reserve` it gets the space that is kept for removing things when the disk is full.

        Raises:
            StorageFull: no space left, or only the reserve for removing things; reads continue.
            StorageFailed: SQLite refused it, or the disk has failed and the database is not verified yet.
            StorageClosed: after `close`.
            Exception: whatever the function raised.
        """
        if self._closed:
            raise StorageClosed("The database is closed for writing.")
        self._refuse_while_faulty()
        result: asyncio.Future[T] = self._groups.add(Write(fn, uses_reserve))
        if self._groups.starts_or_completes():
            self._wake.set()
        return await result

    async def checkpoint(self, *, patience_ms: int = BUSY_TIMEOUT_MS) -> bool:
        """Move everything from the WAL into the database and empty the WAL.

        Deleted text is gone from the disk only after that. Returns False when a reader was in the way for
        longer than `patience_ms`; writes wait meanwhile.

        Raises:
            StorageFailed, StorageClosed.
        """
        self._refuse_while_faulty()
        try:
            return await self._checkpoints.empty_wal(patience_ms=patience_ms)
        except StorageFailed as error:
            self._look_at(error)
            raise

    async def turn(self) -> None:
        """Return when the connection's thread has done what it does at present; it writes nothing.

        Raises:
            StorageFailed, StorageClosed: as `run`.
        """
        self._refuse_while_faulty()
        await self._connection.thread.run(lambda connection: connection.execute("SELECT 1").fetchone())

    async def copy(
        self, copy: Callable[[Connection], None], stop: threading.Event, *, gives_way: bool = False
    ) -> bool:
        """Run a function beside the connection's thread that copies the database through the connection.

        Writes continue, and what they commit is in the copy (`copy.copy_pages`). `stop` is set when the
        caller is cancelled and when the connection has to be closed; the function must end then. With
        `gives_way`, `while_closed` is such a reason, and is refused otherwise: returns False if the copy
        was ended for it.

        Raises:
            StorageFailed: the disk has failed, or another copy is being made.
            StorageClosed: after `close`.
            Exception: whatever the function raised.
        """
        self._refuse_while_faulty()
        async with self._in_use:
            if self._closed:
                raise StorageClosed("The database is closed.")
            self._refuse_while_faulty()
            if self._copy is not None:
                raise StorageFailed("The database is already being copied.")
            connection = self._connection.thread.connection
            self._copy = RunningCopy(copy, connection, stop, gives_way=gives_way)
        try:
            return await self._copy.result()
        finally:
            self._copy = None

    async def while_closed(self, work: Callable[[Path], T], *, patience_ms: int) -> T:
        """Run a function in a thread while no connection of this process is open; reads and writes wait.

        Everything committed is in the database file then, and there is no WAL.

        Raises:
            StorageFailed: another connection reads for longer than `patience_ms`, a copy is made that does
                not give way, or SQLite or `work` failed.
        """
        self._refuse_while_faulty()
        others = (
            self._connection.others.paused(patience_ms / 1_000)
            if self._connection.others
            else contextlib.nullcontext()
        )
        async with self._in_use:
            if self._closed:
                raise StorageClosed("The database is closed for writing.")
            if self._copy is not None:
                await self._copy.give_way()
            async with others:
                if not await self.checkpoint(patience_ms=patience_ms):
                    raise StorageFailed("The database is being read by another program.")
                # To its end even if the caller goes away: half of it would leave no connection to write with.
                return await finish(asyncio.ensure_future(self._closed_for(work)))

    async def look_at_files(self) -> None:
        """Notice when the files of the database were removed, replaced or moved: then refuse, and save them.

        Each commit looks as well; this is for the time without writes.
        """
        if self._takes_writes():
            async with self._in_use:
                if self._takes_writes():
                    self._note_loss(await asyncio.to_thread(self._connection.loss))

    def _takes_writes(self) -> bool:
        return self.fault is None and not self._closed

    @property
    def moved_to(self) -> Path | None:
        """Where the files of the database are, if they were moved away from its path."""
        return None if self.fault is None else self._connection.moved_to

    def _note_loss(self, fault: StorageFailed | None) -> None:
        if fault is None or self.fault is not None:
            return
        _say(log.error, "database_files_lost", problem=fault.message, hint=fault.hint)
        self._refuse_from_now_on(fault)
        self._wake.set()

    async def _closed_for(self, work: Callable[[Path], T]) -> T:
        # Closing a file without a name loses it.
        if (fault := await asyncio.to_thread(self._connection.loss)) is not None:
            self._note_loss(fault)
            raise _refusal(fault)
        try:
            return await self._connection.close_for(work)
        finally:
            await self._reopen()

    async def _reopen(self) -> None:
        """Open the connection again. Nothing is lost if that fails: all is synced; the worker tries again."""
        try:
            await self._connection.reopen()
        except StorageFailed as error:
            _say(log.warning, "database_does_not_reopen", problem=error.message)
            self._refuse_from_now_on(error)
            self._wake.set()

    async def _pause(self, attempts: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s(attempts)):
                await self._stopped.wait()

    async def sound(self) -> None:
        """Wait until writes are taken: at once unless the disk has failed."""
        await self._is_sound.wait()

    async def close(self) -> None:
        """Commit what waits, then close the connection. Idempotent; a cancelled caller still waits for it."""
        self._closed = True
        self._wake.set()
        self._stopped.set()
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        await finish(self._ending)

    async def _end(self) -> None:
        try:
            await asyncio.wait([self._worker])
        finally:
            async with self._in_use:  # `while_closed` opens the connection again
                if self._copy is not None:
                    await self._copy.end(reopens=False)
                await self._connection.close(is_sound=self.fault is None)

    async def _work(self) -> None:
        try:
            while await self._group_is_ready():
                async with self._in_use:
                    if self.fault is not None:
                        await self._recover()
                    elif self._groups:
                        await self._commit(self._groups.take())
        finally:
            self._closed = True
            self._groups.refuse_all(lambda: StorageClosed("The database was closed for writing."))

    async def _group_is_ready(self) -> bool:
        """Wait until there is something to do; False when closed and no caller waits any more."""
        while True:
            self._wake.clear()
            if self._closed:
                return bool(self._groups) and self.fault is None
            if self.fault is not None:
                return True
            if not self._groups:
                await self._wake.wait()
                continue
            if (remaining := self._groups.remaining_s()) <= 0:
                return True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await self._wake.wait()

    async def _commit(self, group: Sequence[WaitingWrite]) -> None:
        writes = [waiter.write for waiter in group]
        outcomes: list[Outcome] = [FailedWrite(StorageFailed("The writer was stopped; this may be on disk."))]
        outcomes *= len(group)
        began, commits, wal = time.monotonic(), 0, None
        try:
            outcomes, commits, wal = await self._connection.thread.run(
                partial(self._commit_unless_failed, writes)
            )
            self.commits += commits
            if commits:
                self._telemetry.committed(time.monotonic() - began, len(group))
        except StorageFailed as error:
            # Not even rolling back worked. The next group tries again.
            outcomes = [FailedWrite(error)] * len(group)
        finally:
            for waiter, outcome in zip(group, outcomes, strict=True):
                waiter.answer(outcome)
        self._note_loss(self._loss)
        self._look_at(*(outcome.error for outcome in outcomes if isinstance(outcome, FailedWrite)))
        if commits and self.fault is None:
            await self._checkpoint_if_due(wal)
        self._groups.committed(len(group))

    def _commit_unless_failed(
        self, writes: Sequence[Write], connection: Connection
    ) -> tuple[list[Outcome], int, WalState | None]:
        if self._checkpoints.fault is not None:
            # This group was already on its way when the checkpoint failed.
            return [FailedWrite(error_for_caller(self._checkpoints.fault))] * len(writes), 0, None
        if (loss := self._connection.loss()) is not None:
            self._loss = loss
            return [FailedWrite(_refusal(loss)) for _ in writes], 0, None
        return commit_within(self._reserve, connection, writes)

    async def keep_reserve(self) -> None:
        """Fill the reserve if it was given up, or never made, and there is room."""
        await asyncio.to_thread(self._reserve.fill)

    async def _checkpoint_if_due(self, wal: WalState | None) -> None:
        try:
            await self._checkpoints.move_if_due(wal)
        except StorageFull:
            # It is tried again when as much has come.
            _say(log.warning, "checkpoint_put_off", reason="no space left for the database")
        except StorageFailed as error:
            self._look_at(error)

    def _look_at(self, *errors: Exception) -> None:
        """Refuse everything from now on, if one of the errors is the disk's."""
        found = next(filter(is_disk_fault, errors), None)
        if found is None or self.fault is not None:
            return
        fault = found if isinstance(found, StorageFailed) else StorageFailed("The disk has failed.")
        _say(log.error, "database_failed", problem=fault.message, hint=fault.hint)
        self._refuse_from_now_on(fault)
        self._wake.set()

    def _refuse_from_now_on(self, fault: StorageFailed) -> None:
        """Also what waits: for an unknown time."""
        self.fault = fault
        self._is_sound.clear()
        self._groups.refuse_all(lambda: _refusal(fault))

    def _refuse_while_faulty(self) -> None:
        if self.fault is not None:
            raise _refusal(self.fault)

    async def _recover(self) -> None:
        """Bring the database back to its path, reopen and verify it, as often as it takes, until closed."""
        recovery, attempts = Recovery(self._connection.path, self._connection.others), 0
        if self._copy is not None:
            await self._copy.end()
        while not self._closed:
            try:
                await self._connection.recover(recovery)
            except StorageFailed as error:
                level = log.debug if self.fault and error.message == self.fault.message else log.warning
                self.fault = error
                _say(level, "database_still_fails", problem=error.message, attempts=attempts + 1)
                if not self._connection.is_open:
                    await asyncio.to_thread(self._reserve.give_up_if_full)
                await self._pause(attempts)
                attempts += 1
            else:
                self.fault = self._checkpoints.fault = self._loss = None
                self._is_sound.set()
                _say(log.info, "database_recovered", attempts=attempts + 1)
                return


def _refusal(fault: StorageFailed) -> StorageFailed:
    """A new error for each caller: a raised one collects tracebacks."""
    kind = StorageFull if isinstance(fault, StorageFull) else StorageFailed
    return kind(
        f"Saving is stopped until the database is reopened and verified: {fault.message}",
        hint=fault.hint or "Check the disk; saving resumes automatically.",
    )


def _say(log_at_level: Callable[..., Any], event: str, **values: Any) -> None:
    """Log it, if that is possible: the log may be on the disk that fails, and writing has to recover."""
    with contextlib.suppress(OSError):
        log_at_level(event, **values)
