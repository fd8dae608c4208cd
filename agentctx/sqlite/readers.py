"""A small pool of read-only connections. Every read sees one snapshot and ends by its deadline."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self, TypeVar

from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.sqlite.driver import Connection, ConnectionThread, OperationalError, finish

T = TypeVar("T")

READ_TIMEOUT_S: Final = 2.0
"""An open reader keeps the WAL from being emptied, and with it deleted text on the disk."""
_INTERRUPT_EVERY_S: Final = 0.01
_ROLLBACK_TRIES: Final = 100


class Readers:
    """Runs functions that only read, as many at once as there are connections, first come first served."""

    def __init__(self, threads: Sequence[ConnectionThread]) -> None:
        self._threads = tuple(threads)
        self._free = list(threads)
        self._turn = asyncio.Semaphore(len(threads))

    @classmethod
    async def open(cls, path: str | Path, size: int) -> Self:
        """Open `size` connections to a database that exists.

        Raises:
            StorageFailed: there is no database at `path`, or it cannot be read.
        """
        threads: list[ConnectionThread] = []
        try:
            for _ in range(size):
                threads.append(await ConnectionThread.open(path, readonly=True))  # noqa: PERF401 (kept to close)
        except BaseException:
            for thread in threads:
                await thread.close()
            raise
        return cls(threads)

    async def run(self, fn: Callable[[Connection], T], *, timeout_s: float = READ_TIMEOUT_S) -> T:
        """Run one function in a read transaction and return its result: rows, never a cursor.

        All its statements see the same snapshot; temporary tables it makes are gone afterwards. When the
        caller is cancelled, the running statement is interrupted and the connection made clean first.

        Raises:
            DeadlineExceeded: not done within `timeout_s` seconds, waiting for a connection included.
            StorageFailed: SQLite could not read.
            StorageClosed: after `close`.
            Exception: whatever the function raised.
        """
        deadline = asyncio.timeout(timeout_s)
        try:
            async with deadline, self._turn:
                return await self._run_on_free(fn)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise DeadlineExceeded(
                f"the database did not answer within {timeout_s:g} s",
                hint="Ask for less, or narrow the question with filters.",
            ) from error

    async def _run_on_free(self, fn: Callable[[Connection], T]) -> T:
        thread = self._free.pop()
        reading = asyncio.ensure_future(thread.run(lambda connection: _in_snapshot(connection, fn)))
        try:
            await asyncio.wait([reading])
        except asyncio.CancelledError:
            await finish(asyncio.ensure_future(_stop(thread, reading)))
            raise
        finally:
            self._free.append(thread)
        return reading.result()

    async def close(self) -> None:
        """Let what runs finish, refuse what waits, close all connections. Idempotent."""
        closing = asyncio.gather(*(thread.close() for thread in self._threads))
        await finish(closing)


async def _stop(thread: ConnectionThread, reading: asyncio.Future[T]) -> None:
    """Interrupt until the function has ended: an interrupt between two of its statements hits nothing."""
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
    # An interrupt may hit the ROLLBACK itself; then it has to be said again.
    for _ in range(_ROLLBACK_TRIES):
        if not connection.in_transaction:
            return
        with contextlib.suppress(OperationalError):
            connection.execute("ROLLBACK")
    raise StorageFailed("a read transaction could not be ended")
