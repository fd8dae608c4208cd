"""A connection with its own thread, and waiting that survives cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self, TypeVar

from agentctx.errors import StorageClosed
from agentctx.storage.file.driver import Connection, Error, hardening, open_connection, translated

T = TypeVar("T")


class ConnectionThread:
    """A connection with its own thread. Each function given to `run` has exclusive use of it.

    Open it with `await ConnectionThread.open(path)`, and close it, since the thread keeps the process alive.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        """The connection, for the one operation that SQLite allows from another thread: a copy."""
        self._closing: asyncio.Future[None] | None = None
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(target=_work, args=(self._calls,), name="sqlite-connection").start()

    @classmethod
    async def open(cls, path: str | Path, *, readonly: bool = False) -> Self:
        """Open the connection, and start its thread.

        Raises:
            DriverUnsuitable, StorageFailed: like `open_connection`. No thread is left behind.
        """
        opening = asyncio.ensure_future(asyncio.to_thread(_opened, path, readonly=readonly))
        try:
            return cls(await finish(opening))
        except asyncio.CancelledError:
            if not opening.cancelled() and opening.exception() is None:
                await cls(opening.result()).close()
            raise

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
        self._calls.put(partial(_call, fn, self.connection, result))
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
            self._closing = self.submit(Connection.close)
            self._calls.put(None)
        await finish(self._closing)


def _opened(path: str | Path, *, readonly: bool) -> Connection:
    connection = open_connection(path, readonly=readonly)
    hardening.defend(connection)
    return connection


def _work(calls: SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
        del call  # with what it refers to, such as rows


def _call(fn: Callable[[Connection], T], connection: Connection, result: asyncio.Future[T]) -> None:
    """Run a function and deliver what it returns or raises to the loop of `result`, unless that is closed."""
    deliver: Callable[[], Any]
    try:
        deliver = partial(result.set_result, fn(connection))
    except Exception as error:  # noqa: BLE001 - delivered
        deliver = partial(result.set_exception, error_for_caller(error))
    except BaseException as error:  # noqa: BLE001 - delivered
        deliver = partial(result.set_exception, error)
    with contextlib.suppress(RuntimeError):
        result.get_loop().call_soon_threadsafe(_deliver, result, deliver)


def _deliver(result: asyncio.Future[Any], deliver: Callable[[], Any]) -> None:
    if not result.done():  # its caller may have been cancelled
        deliver()


def error_for_caller(error: Exception) -> Exception:
    """Translate errors of the driver for the caller of a function; leave others unchanged."""
    if isinstance(error, Error):
        failure: Exception = translated(error)
    elif isinstance(error, StopIteration):
        # A future cannot hold a StopIteration: the caller would wait forever.
        failure = RuntimeError("a function of the database raised StopIteration")
    else:
        return error
    failure.__cause__ = error
    return failure


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
