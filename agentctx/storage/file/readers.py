"""A small pool of read-only connections. Every read sees one snapshot and has a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeAlias, TypeVar

from agentctx.errors import DeadlineExceeded, StorageClosed, StorageFailed
from agentctx.storage.file.connection_thread import ConnectionThread, finish
from agentctx.storage.file.driver import Connection, OperationalError

T = TypeVar("T")
Preparation: TypeAlias = Callable[[Connection], None]

PAUSE_PATIENCE_S: Final = 3.0
END_PATIENCE_S: Final = 1.0
"""How long to wait for interrupted reads."""
READ_TIMEOUT_S: Final = 2.0
"""An open reader keeps the WAL from being emptied, and thereby deleted text on the disk."""
WAIT_TIMEOUT_S: Final = 20.0
"""Long, because when hundreds of clients ask at once, errors would only make them ask again."""
_INTERRUPT_EVERY_S: Final = 0.01
_ROLLBACK_TRIES: Final = 100


class Readers:
    """Runs read-only functions, as many at once as there are connections, first come, first served."""

    def __init__(
        self, threads: Sequence[ConnectionThread], path: str | Path, prepare: Preparation | None = None
    ) -> None:
        self._path = path
        self._prepare = prepare
        self._size = len(threads)
        self._threads = set(threads)
        self._free = list(threads)
        self._permits = asyncio.Semaphore(self._size)
        self._closed = asyncio.Event()
        self._reads: set[_RunningRead] = set()

    @classmethod
    async def open(cls, path: str | Path, size: int, prepare: Preparation | None = None) -> Self:
        """Open `size` connections to an existing database.

        Each is passed to `prepare` once; temporary tables created there stay, but their rows do not.

        Raises:
            StorageFailed: there is no database at `path`, or it cannot be read.
        """
        threads: list[ConnectionThread] = []
        try:
            for _ in range(size):
                threads.append(await _open(path, prepare))  # noqa: PERF401 (kept to close)
        except BaseException:
            for thread in threads:
                await thread.close()
            raise
        return cls(threads, path, prepare)

    async def run(
        self,
        fn: Callable[[Connection], T],
        *,
        timeout_s: float = READ_TIMEOUT_S,
        wait_s: float = WAIT_TIMEOUT_S,
    ) -> T:
        """Run a function in a read transaction and return its result: rows, never a cursor.

        All its statements see the same snapshot; temporary tables it creates are dropped afterwards. If the
        caller is cancelled, the running statement is interrupted and the connection is cleaned up first.

        Raises:
            DeadlineExceeded: no connection was free for `wait_s` seconds, or the function ran for
                `timeout_s`. Time in which the event loop is blocked does not count.
            StorageFailed: SQLite could not read, or the read was ended because the disk has failed.
            StorageClosed: after `close`.
            Exception: raised by the function.
        """
        await self._take_permit(wait_s)
        try:
            return await self._run_on_free(fn, timeout_s)
        finally:
            self._permits.release()

    async def _take_permit(self, wait_s: float) -> None:
        if not self._permits.locked():
            await self._permits.acquire()  # at once
            return
        try:
            async with asyncio.timeout(wait_s):
                await self._permits.acquire()
        except TimeoutError as error:
            raise _deadline_error(wait_s) from error

    async def _run_on_free(self, fn: Callable[[Connection], T], timeout_s: float) -> T:
        thread = self._free.pop() if self._free else await self._opened()
        read = _RunningRead(thread, timeout_s)
        reading = thread.submit(partial(read.timed, fn))
        read.reading = reading
        self._reads.add(read)
        try:
            while not reading.done() and not read.is_too_long:
                await asyncio.wait([reading], timeout=read.remaining_s)
            if not reading.done():
                await finish(asyncio.ensure_future(_stop(thread, reading)))
                raise _deadline_error(timeout_s)
        except asyncio.CancelledError:
            await finish(asyncio.ensure_future(_stop(thread, reading)))
            raise
        finally:
            self._reads.discard(read)
            self._free.append(thread)
        if read.ended_for and (error := reading.exception()):
            raise StorageFailed(f"The read was interrupted: {read.ended_for}.", hint="Ask again.") from error
        return reading.result()

    @contextlib.asynccontextmanager
    async def paused(
        self, patience_s: float = PAUSE_PATIENCE_S, *, insists: bool = False
    ) -> AsyncIterator[None]:
        """Close all connections during the block; reads wait, within their own deadlines.

        With `insists`, reads that last longer than `patience_s` are ended.

        Raises:
            StorageFailed: running reads did not end within `patience_s`. Nothing was closed.
        """
        taken: list[asyncio.Semaphore] = []
        try:
            if not await self._take_all(taken, patience_s):
                if insists:
                    reason = "the disk has failed, and the database is being reopened"
                    await self._end_reads(list(self._reads), reason)
                if not (insists and await self._take_all(taken, END_PATIENCE_S)):
                    raise StorageFailed("The database is being read and cannot be closed.")
            try:
                await self._close_threads()
                yield
            finally:
                await self._reopen()
        finally:
            for permits in taken:
                permits.release()

    async def _take_all(self, taken: list[asyncio.Semaphore], patience_s: float) -> bool:
        """Take all permits that are not in `taken` yet; return False if some did not come in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while len(taken) < self._size:
                    await self._permits.acquire()
                    taken.append(self._permits)
        return len(taken) == self._size

    async def interrupt_long(self) -> None:
        """End the reads that last longer than `READ_TIMEOUT_S`, because meanwhile the WAL only grows."""
        long = [read for read in self._reads if read.busy_for_s > READ_TIMEOUT_S]
        await self._end_reads(long, "too much was written in the meantime")

    async def _end_reads(self, reads: Sequence[_RunningRead], reason: str) -> None:
        """End reads early; stop waiting for the ones that do not end in time."""
        ending = [asyncio.ensure_future(read.end(reason)) for read in reads]
        if ending:
            _, late = await asyncio.wait(ending, timeout=END_PATIENCE_S)
            for each in late:
                each.cancel()

    async def drop_results(self) -> None:
        """Let every thread drop the result of its last read, which it keeps until the next one."""
        await asyncio.gather(*(thread.run(lambda _: None) for thread in self._threads if thread.is_open))

    async def close(self) -> None:
        """Finish running reads, refuse waiting ones, close all connections. Idempotent."""
        self._closed.set()
        await self._close_threads()

    async def _close_threads(self) -> None:
        try:
            await finish(asyncio.gather(*(thread.close() for thread in self._threads)))
        finally:
            # Even if the caller is cancelled, no closed connection may remain for other reads.
            if not self._closed.is_set():
                self._threads.clear()
                self._free.clear()

    async def _reopen(self) -> None:
        """Reopen the connections; one that fails to open now is opened by the read that needs it."""
        with contextlib.suppress(StorageFailed):
            while len(self._threads) < self._size and not self._closed.is_set():
                self._free.append(await self._opened())

    async def _opened(self) -> ConnectionThread:
        if self._closed.is_set():
            raise StorageClosed("The database is closed.")
        thread = await _open(self._path, self._prepare)
        self._threads.add(thread)
        if self._closed.is_set():
            await thread.close()
        return thread


async def _open(path: str | Path, prepare: Preparation | None) -> ConnectionThread:
    """Open a connection together with the WAL, whose file may later be missing from its path."""
    thread = await ConnectionThread.open(path, readonly=True)
    try:
        await thread.run(lambda connection: connection.execute("SELECT 1 FROM sqlite_schema").fetchone())
        if prepare is not None:
            await thread.run(prepare)
    except BaseException:
        await thread.close()
        raise
    return thread


class _RunningRead:
    """A running read, which measures how long its function has run, from within the function's thread."""

    reading: asyncio.Future[Any]

    def __init__(self, thread: ConnectionThread, timeout_s: float) -> None:
        self.ended_for = ""
        """Why the read was ended early."""
        self._thread = thread
        self._timeout_s = timeout_s
        self._began: float | None = None
        self._has_ended = False

    def timed(self, fn: Callable[[Connection], T], connection: Connection) -> T:
        self._began = time.monotonic()
        try:
            return _in_snapshot(connection, fn)
        finally:
            self._has_ended = True

    async def end(self, reason: str) -> None:
        self.ended_for = reason
        await _stop(self._thread, self.reading)

    @property
    def busy_for_s(self) -> float:
        """Seconds since the start; 0 before."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    @property
    def remaining_s(self) -> float | None:
        """Remaining seconds; None once the function has ended and its result is on the way."""
        return None if self._has_ended else self._timeout_s - self.busy_for_s

    @property
    def is_too_long(self) -> bool:
        remaining_s = self.remaining_s
        return remaining_s is not None and remaining_s <= 0


def _deadline_error(after_s: float) -> DeadlineExceeded:
    return DeadlineExceeded(
        f"The database did not answer within {after_s:g} s.",
        hint="Ask for less, or narrow the question with filters.",
    )


async def _stop(thread: ConnectionThread, reading: asyncio.Future[T]) -> None:
    """Interrupt until the function has ended: an interrupt between two statements has no effect."""
    while not reading.done():
        thread.interrupt()
        await asyncio.wait([reading], timeout=_INTERRUPT_EVERY_S)
    if not reading.cancelled():
        reading.exception()  # the caller gets its cancellation or its deadline instead


def _in_snapshot(connection: Connection, fn: Callable[[Connection], T]) -> T:
    connection.execute("BEGIN")
    try:
        return fn(connection)
    except BaseException as error:
        # A cursor kept by a frame of the traceback would keep the snapshot, and the interrupt, alive.
        traceback.clear_frames(error.__traceback__)
        raise
    finally:
        _end(connection)


def _end(connection: Connection) -> None:
    # An interrupt may hit the ROLLBACK itself, which must then be repeated.
    for _ in range(_ROLLBACK_TRIES):
        if not connection.in_transaction:
            return
        with contextlib.suppress(OperationalError):
            connection.execute("ROLLBACK")
    raise StorageFailed("A read transaction could not be ended.")
