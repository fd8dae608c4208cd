"""A connection with its own thread, and waiting that survives cancellation."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import aiosqlite

from agentctx.errors import StorageClosed
from agentctx.storage.file.driver import Connection, Error, hardening, open_connection, translated

T = TypeVar("T")


_ROWS_PER_HOP: Final = 64


class ConnectionThread:
    """A connection with its own thread. Each function given to `run` has exclusive use of it.

    Open it with `await ConnectionThread.open(path)`, and close it, since the thread keeps the process alive.
    """

    def __init__(self, bridge: aiosqlite.Connection, connection: Connection) -> None:
        self._bridge = bridge
        self.connection = connection
        """The connection, for the one operation that SQLite allows from another thread: a copy."""
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, path: str | Path, *, readonly: bool = False) -> Self:
        """Start a thread and open the connection in it.

        Raises:
            DriverUnsuitable, StorageFailed: like `open_connection`. No thread is left behind.
        """
        opened: list[Connection] = []
        failed: list[Exception] = []

        def connect() -> Any:
            try:
                opened.append(open_connection(path, readonly=readonly))
                hardening.defend(opened[0])
            except Exception as error:  # noqa: BLE001 - if it were raised here, aiosqlite would not await its thread
                failed.append(error)
            return opened[0] if opened else contextlib.ExitStack()

        bridge = aiosqlite.Connection(connect, _ROWS_PER_HOP)
        try:
            await finish(asyncio.ensure_future(bridge))
            if failed:
                raise failed[0]
        except BaseException:
            await finish(asyncio.ensure_future(bridge.close()))
            raise
        return cls(bridge, opened[0])

    @property
    def is_open(self) -> bool:
        return self._closing is None

    async def run(self, fn: Callable[[Connection], T]) -> T:
        """Return the result of `submit`; raises what the function raises."""
        return await self.submit(fn)

    def submit(self, fn: Callable[[Connection], T]) -> asyncio.Future[T]:
        """Run a function in the connection's thread, after the earlier ones.

        The function continues if the caller is cancelled, so it must leave no transaction open. The future
        raises what the function raises, driver errors translated.

        Raises:
            StorageClosed: after `close`.
        """
        if self._closing is not None:
            raise StorageClosed("The database is closed.")
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        call: Any = (result, partial(_deliverable, fn, self.connection))
        # A whole transaction has to be one call in the thread, for which aiosqlite has no public method.
        self._bridge._tx.put_nowait(call)  # noqa: SLF001 (see above; pinned below 0.23)
        return result

    def interrupt(self) -> None:
        """Interrupt the running statement, if any; it fails in the function that runs it."""
        with contextlib.suppress(Error):  # already closed
            self.connection.interrupt()

    async def close(self) -> None:
        """Finish the pending calls of `run`, close the connection, end the thread. Idempotent.

        A cancelled caller still waits until the connection is closed.
        """
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._bridge.close())
        await finish(self._closing)


def _deliverable(fn: Callable[[Connection], T], connection: Connection) -> T:
    try:
        return fn(connection)
    except Error as error:
        raise translated(error) from error
    except StopIteration as error:
        # A future cannot hold a StopIteration: the caller would wait forever.
        raise RuntimeError("a function of the database raised StopIteration") from error


async def finish(work: asyncio.Future[T]) -> T:
    """Return the result of `work`, waiting for it even if the caller is cancelled.

    A cancellation is delivered once the work is done.
    """
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not work.cancelled():
            work.exception()  # retrieved, so that asyncio does not report it as lost
        raise cancelled
    return work.result()
