"""The only writing connection, with group commit: callers that wait at the same time share one fsync."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import structlog

from agentctx.errors import DatabaseMissing, StorageClosed, StorageFailed, StorageFull
from agentctx.storage.file.checkpoint import WalState, readable_wal_state
from agentctx.storage.file.commit import (
    FailedWrite,
    Outcome,
    WriteFunction,
    commit_group,
    error_for_caller,
    is_disk_fault,
)
from agentctx.storage.file.connection_thread import finish
from agentctx.storage.file.copy import RunningCopy
from agentctx.storage.file.driver import BUSY_TIMEOUT_MS, Connection, notes_of
from agentctx.storage.file.readers import Readers
from agentctx.storage.file.recovery import Recovery, pause_s
from agentctx.storage.file.write_groups import WaitingWrite, WriteGroups
from agentctx.storage.file.writing_connection import WritingConnection
from agentctx.telemetry import NO_TELEMETRY, Telemetry

log = structlog.get_logger("agentctx.sqlite")

T = TypeVar("T")


class Writer:
    """Runs writing functions, each atomically, and returns once they are on disk.

    Functions that wait together share one transaction and one commit. A function must be re-runnable and
    touch nothing but its connection: if one of a group raises, all are run again, each in a savepoint;
    if the whole group is lost (disk full, failed commit), each is run again alone.

    If the disk fails, the writer refuses all writes until it has reopened and verified the database, which it
    attempts automatically, with increasing pauses. If the files of the database are no longer at their path,
    it refuses all writes for good, and copies the database.
    """

    def __init__(self, connection: WritingConnection, telemetry: Telemetry = NO_TELEMETRY) -> None:
        self.commits = 0
        """The number of commits since the database was opened."""
        self.fault: StorageFailed | None = None
        """Why nothing can be written; `DatabaseMissing` is for good: the files are gone, and copied."""
        self.noted: Callable[[AbstractSet[Any]], None] = lambda _: None
        """Gets the notes of each group (`notes_of`) in the connection's thread, before its callers return."""
        self._loss: StorageFailed | None = None
        self._connection = connection
        self._stopped = asyncio.Event()
        self._telemetry = telemetry
        self._groups = WriteGroups()
        self._wake = asyncio.Event()
        self._closed = False
        self._ending: asyncio.Future[None] | None = None
        self._in_use = asyncio.Lock()
        self._copy: RunningCopy | None = None
        self._worker = asyncio.create_task(self._work(), name="sqlite-writer")

    @classmethod
    async def open(cls, path: str | Path, telemetry: Telemetry = NO_TELEMETRY) -> Self:
        """Open the writing connection of a database, which is created if it is missing.

        Raises:
            DriverUnsuitable, StorageFailed: as `driver.open_connection`.
        """
        return cls(await WritingConnection.open(path), telemetry)

    def recover_with(self, others: Readers) -> None:
        """Set the other connections of this process, all of which must be closed to reread the disk."""
        self._connection.others = others

    async def run(self, fn: WriteFunction[T], *, committed: Callable[[T], None] | None = None) -> T:
        """Run a function in a transaction and return its result once it is committed.

        The function must not begin or end a transaction. If it raises, its own changes are rolled back and
        the other functions' changes stay. Cancelling the caller does not stop it: it may still be committed.
        `committed` gets the result then, whether or not the caller is there; it must not raise.

        Raises:
            StorageFull: no space is left; nothing of it was written, and reads continue.
            StorageFailed: SQLite refused it, or the disk has failed and the database is not verified yet.
            StorageClosed: after `close`.
            Exception: raised by the function.
        """
        if self._closed:
            raise StorageClosed("The database is closed for writing.")
        self._require_accepting()
        result: asyncio.Future[T] = self._groups.add(fn, committed)
        if self._groups.starts_or_completes():
            self._wake.set()
        return await result

    async def checkpoint(self, *, patience_ms: int = BUSY_TIMEOUT_MS) -> bool:
        """Move everything from the WAL into the database and empty the WAL.

        Only then is deleted text gone from the disk. Returns False if a reader blocked it for longer than
        `patience_ms`; writes wait in the meantime.

        Raises:
            StorageFailed, StorageClosed.
        """
        self._require_accepting()
        try:
            return await self._connection.empty_wal(patience_ms=patience_ms)
        except StorageFailed as error:
            self._inspect_errors(error)
            raise

    async def probe(self) -> None:
        """Wait until the connection's thread has finished its present work; writes nothing.

        Raises:
            StorageFailed, StorageClosed: as `run`.
        """
        self._require_accepting()
        await self._connection.thread.run(lambda connection: connection.execute("SELECT 1").fetchone())

    async def run_alone(self, work: Callable[[Connection], T]) -> T:
        """Run a function that is not a part of a transaction in the connection's thread; writes wait.

        Raises:
            StorageFailed, StorageClosed: as `run`.
        """
        self._require_accepting()
        try:
            return await self._connection.thread.run(work)
        except StorageFailed as error:
            self._inspect_errors(error)
            raise

    async def copy(self, copy: Callable[[Connection], None], stop: threading.Event) -> None:
        """Run a function outside of the connection's thread that copies the database through the connection.

        Writes continue, and their commits are in the copy (`copy.copy_pages`). `stop` is set if the caller is
        cancelled or the connection has to be closed; the function must then end. `while_closed` is refused.

        Raises:
            StorageFailed: the disk has failed, or another copy is being made.
            StorageClosed: after `close`.
            Exception: raised by the function.
        """
        self._require_accepting()
        async with self._in_use:
            if self._closed:
                raise StorageClosed("The database is closed.")
            self._require_accepting()
            if self._copy is not None:
                raise StorageFailed("The database is already being copied.")
            connection = self._connection.thread.connection
            self._copy = RunningCopy(copy, connection, stop)
        try:
            await self._copy.result()
        finally:
            self._copy = None

    async def while_closed(self, work: Callable[[Path], T], *, patience_ms: int) -> T:
        """Run a function in a thread while no connection of this process is open; reads and writes wait.

        Everything committed is then in the database file, and there is no WAL.

        Raises:
            StorageFailed: another connection reads for longer than `patience_ms`, a copy is made, or SQLite
                or `work` failed.
        """
        self._require_accepting()
        others = (
            self._connection.others.paused(patience_ms / 1_000)
            if self._connection.others
            else contextlib.nullcontext()
        )
        async with self._in_use:
            if self._closed:
                raise StorageClosed("The database is closed for writing.")
            if self._copy is not None:
                raise StorageFailed("The database is being copied and cannot be closed.")
            async with others:
                if not await self.checkpoint(patience_ms=patience_ms):
                    raise StorageFailed("The database is being read by another program.")
                # Finish even if the caller is cancelled: stopping halfway would leave no writing connection.
                return await finish(asyncio.ensure_future(self._closed_for(work)))

    async def inspect_files(self) -> None:
        """Check whether the database files were removed, moved or replaced; then refuse writes and copy them.

        Each commit checks too; this is for times without writes.
        """
        async with self._in_use:
            if self.fault is None and not self._closed:
                self._note_loss(await asyncio.to_thread(self._connection.files.loss))

    def _note_loss(self, fault: StorageFailed | None) -> None:
        if fault is None or self.fault is not None:
            return
        _log_event(log.error, "database_files_lost", problem=fault.message, hint=fault.hint)
        self._suspend_writes(fault)
        self._wake.set()

    async def _closed_for(self, work: Callable[[Path], T]) -> T:
        # Closing a file that has no name loses it.
        if (fault := await asyncio.to_thread(self._connection.files.loss)) is not None:
            self._note_loss(fault)
            raise _refusal(fault)
        try:
            return await self._connection.close_for(work)
        finally:
            await self._reopen()

    async def _reopen(self) -> None:
        """Open the connection again. A failure loses nothing: all is synced, and the worker tries again."""
        try:
            await self._connection.reopen()
        except StorageFailed as error:
            _log_event(log.warning, "database_does_not_reopen", problem=error.message)
            self._suspend_writes(error)
            self._wake.set()

    async def _pause(self, attempts: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s(attempts)):
                await self._stopped.wait()

    async def close(self) -> None:
        """Commit waiting writes, then close the connection. Idempotent; a cancelled caller still waits."""
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
                    if self._can_recover:
                        await self._recover()
                    elif self._groups:
                        await self._commit(self._groups.take())
        finally:
            self._closed = True
            self._groups.refuse_all(lambda: StorageClosed("The database was closed for writing."))

    async def _group_is_ready(self) -> bool:
        """Wait until there is work; return False once closed without waiting callers."""
        while True:
            self._wake.clear()
            if self._closed:
                return bool(self._groups) and self.fault is None
            if self._can_recover:
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
        commits, wal = 0, None
        work = partial(self._commit_and_answer, group, asyncio.get_running_loop(), time.monotonic())
        try:
            commits, wal = await self._connection.thread.run(work)
        except StorageFailed as error:
            # Even the rollback failed. The next group tries again.
            self._answer(group, [FailedWrite(error)] * len(group), 0, 0.0)
        finally:
            for waiter in group:
                if not waiter.future.done():
                    waiter.answer(FailedWrite(StorageFailed("The writer was stopped; this may be on disk.")))
        if commits and self.fault is None:
            await self._checkpoint_if_due(wal)

    def _commit_and_answer(
        self,
        group: Sequence[WaitingWrite],
        loop: asyncio.AbstractEventLoop,
        began: float,
        connection: Connection,
    ) -> tuple[int, WalState | None]:
        """Commit a group in the connection's thread; return the number of commits and the state of the WAL.

        The callers are answered before that state is read.
        """
        outcomes, commits = self._commit_unless_failed(connection, [waiter.function for waiter in group])
        if notes := notes_of(connection):
            self.noted(frozenset(notes))
            notes.clear()
        loop.call_soon_threadsafe(self._answer, group, outcomes, commits, time.monotonic() - began)
        return commits, readable_wal_state(connection) if commits else None

    def _answer(
        self, group: Sequence[WaitingWrite], outcomes: Sequence[Outcome], commits: int, seconds: float
    ) -> None:
        """Answer the callers of a group, and refuse writes from now on if the disk or the files failed."""
        self.commits += commits
        for waiter, outcome in zip(group, outcomes, strict=True):
            waiter.answer(outcome)
        if commits:
            self._telemetry.committed(seconds, len(group))
        self._note_loss(self._loss)
        self._inspect_errors(*[each.error for each in outcomes if isinstance(each, FailedWrite)])
        self._groups.committed(len(group))

    def _commit_unless_failed(
        self, connection: Connection, functions: Sequence[WriteFunction[Any]]
    ) -> tuple[list[Outcome], int]:
        if self._connection.checkpoint_fault is not None:
            # This group was already on its way when the checkpoint failed.
            return [FailedWrite(error_for_caller(self._connection.checkpoint_fault))] * len(functions), 0
        if (loss := self._connection.files.loss()) is not None:
            self._loss = loss
            return [FailedWrite(_refusal(loss)) for _ in functions], 0
        return commit_group(connection, functions)

    async def _checkpoint_if_due(self, wal: WalState | None) -> None:
        try:
            await self._connection.checkpoint_if_due(wal)
        except StorageFull:
            # It is retried after as many pages again.
            _log_event(log.warning, "checkpoint_put_off", reason="no space left for the database")
        except StorageFailed as error:
            self._inspect_errors(error)

    def _inspect_errors(self, *errors: Exception) -> None:
        """Refuse all writes from now on if one of the errors is a disk fault."""
        found = next(filter(is_disk_fault, errors), None)
        if found is None or self.fault is not None:
            return
        fault = found if isinstance(found, StorageFailed) else StorageFailed("The disk has failed.")
        _log_event(log.error, "database_failed", problem=fault.message, hint=fault.hint)
        self._suspend_writes(fault)
        self._wake.set()

    def _suspend_writes(self, fault: StorageFailed) -> None:
        """Refuse all writes, including the waiting ones, until recovery, which may take any time."""
        self.fault = fault
        self._groups.refuse_all(lambda: _refusal(fault))

    @property
    def _can_recover(self) -> bool:
        return self.fault is not None and not isinstance(self.fault, DatabaseMissing)

    def _require_accepting(self) -> None:
        if self.fault is not None:
            raise _refusal(self.fault)

    async def _recover(self) -> None:
        """Reopen and verify the database, or copy it if its files are gone; retry until that succeeds."""
        recovery, attempts = Recovery(self._connection.path, self._connection.others), 0
        if self._copy is not None:
            await self._copy.end()
        while not self._closed:
            try:
                lost = await self._connection.recover(recovery)
            except StorageFailed as error:
                level = log.debug if self.fault and error.message == self.fault.message else log.warning
                self.fault = error
                _log_event(level, "database_still_fails", problem=error.message, attempts=attempts + 1)
                await self._pause(attempts)
                attempts += 1
            else:
                self.fault = lost
                if lost is not None:
                    _log_event(log.error, "database_rescued", problem=lost.message, hint=lost.hint)
                    return
                self._loss = None
                _log_event(log.info, "database_recovered", attempts=attempts + 1)
                return


def _refusal(fault: StorageFailed) -> StorageFailed:
    """Return a new error for each caller, since a raised error collects tracebacks."""
    kind = StorageFull if isinstance(fault, StorageFull) else StorageFailed
    return kind(
        f"Saving is stopped: {fault.message}",
        hint=fault.hint or "Check the disk; saving resumes automatically.",
    )


def _log_event(log_at_level: Callable[..., Any], event: str, **values: Any) -> None:
    """Log an event if possible: the log may be on the failing disk, and recovery must continue."""
    with contextlib.suppress(OSError):
        log_at_level(event, **values)
