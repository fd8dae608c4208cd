"""The one writing connection, with group commit: callers that wait at the same time share one fsync."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

from agentctx.errors import StorageClosed, StorageFailed
from agentctx.sqlite.driver import BUSY_TIMEOUT_MS, Connection, ConnectionThread, Error, finish, translated
from agentctx.telemetry.base import NO_TELEMETRY, Telemetry

T = TypeVar("T")
WriteFunction: TypeAlias = Callable[[Connection], T]

MAX_GROUP: Final = 256
"""Most functions of one commit."""
GROUP_GAP_S: Final = 0.003
"""A group is closed when nobody came for this long: a server needs about 0.5 ms from one to the next."""
GROUP_WAIT_S: Final = 0.012
"""A group is closed this long after its first caller, whoever may still come."""


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The function ran and its changes are on disk."""

    result: T


@dataclass(frozen=True, slots=True)
class Failed:
    """The function raised, or its changes could not be committed; nothing of it is left."""

    error: Exception


Outcome: TypeAlias = Done[Any] | Failed


class GroupWindow:
    """Decides how long a group stays open. Times are seconds of whatever clock the caller has.

    As many callers are expected as took part around the last commit. A caller who is alone is not delayed;
    when the others stop coming, that costs one gap, once.
    """

    def __init__(self) -> None:
        self.expected = 1

    def closes_at(self, *, waiting: int, first: float, last: float) -> float:
        """When to commit, if `waiting` callers are here, who came from `first` to `last`."""
        if waiting >= self.expected:
            return last
        return min(first + GROUP_WAIT_S, last + GROUP_GAP_S)

    def committed(self, *, members: int, arrived: int) -> None:
        """Learn from a commit of `members` callers, while which `arrived` others came."""
        seen = min(members + arrived, MAX_GROUP)
        if seen == 1 or seen >= self.expected:
            self.expected = seen
        else:
            self.expected = (self.expected + seen) // 2


@dataclass(slots=True)
class _Waiter:
    function: WriteFunction[Any]
    answer: asyncio.Future[Any]
    arrived: float


class Writer:
    """Runs functions that write, each atomically, and answers when they are on disk.

    Functions that wait together share one transaction, each in its own savepoint, and one commit. A function
    must be re-runnable and touch nothing but its connection: when the whole group is lost (disk full, a
    failed commit), each of its functions is run again, alone.
    """

    def __init__(self, thread: ConnectionThread, telemetry: Telemetry = NO_TELEMETRY) -> None:
        self.commits = 0
        """Commits since it was opened."""
        self._thread = thread
        self._telemetry = telemetry
        self._window = GroupWindow()
        self._waiting: deque[_Waiter] = deque()
        self._wake = asyncio.Event()
        self._closed = False
        self._opened = 0.0
        self._worker = asyncio.create_task(self._work(), name="sqlite-writer")

    @classmethod
    async def open(cls, path: str | Path, telemetry: Telemetry = NO_TELEMETRY) -> Self:
        """Open the writing connection of a database, which is made if it is missing.

        Raises:
            DriverUnsuitable, StorageFailed: as `driver.open_connection`.
        """
        return cls(await ConnectionThread.open(path), telemetry)

    async def run(self, fn: WriteFunction[T]) -> T:
        """Run one function in a transaction and return its result once that is committed.

        The function opens and ends no transaction itself. When it raises, its own changes are undone and
        those of its neighbours stay. A cancelled caller does not stop it: it may still be committed.

        Raises:
            StorageFull: no space left; reads go on.
            StorageFailed: SQLite refused it.
            StorageClosed: after `close`.
            Exception: whatever the function raised.
        """
        if self._closed:
            raise StorageClosed("the database is closed for writing")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiter(fn, answer, time.monotonic()))
        if len(self._waiting) == 1 or len(self._waiting) >= self._window.expected:
            self._wake.set()
        return await answer

    async def checkpoint(self, *, patience_ms: int = BUSY_TIMEOUT_MS) -> bool:
        """Move everything from the WAL into the database and empty the WAL.

        Deleted text is gone from the disk only after that. Returns False when a reader was in the way for
        longer than `patience_ms`; writes wait meanwhile.

        Raises:
            StorageFailed, StorageClosed.
        """
        return await self._thread.run(partial(_checkpoint, patience_ms=patience_ms))

    async def close(self) -> None:
        """Commit what waits, then close the connection. Idempotent; a cancelled caller still waits for it."""
        self._closed = True
        self._wake.set()
        try:
            await finish(asyncio.ensure_future(asyncio.wait([self._worker])))
        finally:
            await self._thread.close()

    async def _work(self) -> None:
        try:
            while await self._group_is_ready():
                await self._commit(self._take())
        finally:
            self._closed = True
            for waiter in self._waiting:
                _answer(waiter.answer, Failed(StorageClosed("the database was closed for writing")))
            self._waiting.clear()

    async def _group_is_ready(self) -> bool:
        """Wait until a group should be committed; False when closed and nobody waits any more."""
        while True:
            self._wake.clear()
            if self._closed:
                return bool(self._waiting)
            if not self._waiting:
                await self._wake.wait()
                continue
            remaining = self._closes_at() - time.monotonic()
            if remaining <= 0:
                return True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await self._wake.wait()

    def _closes_at(self) -> float:
        # Who came during the last commit has waited for it, not for company.
        first = max(self._waiting[0].arrived, self._opened)
        last = max(self._waiting[-1].arrived, self._opened)
        return self._window.closes_at(waiting=len(self._waiting), first=first, last=last)

    def _take(self) -> list[_Waiter]:
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_GROUP))]

    async def _commit(self, group: Sequence[_Waiter]) -> None:
        functions = [waiter.function for waiter in group]
        outcomes: list[Outcome] = [Failed(StorageFailed("the writer was stopped; this may be on disk"))]
        outcomes *= len(group)
        began = time.monotonic()
        try:
            outcomes, commits = await self._thread.run(partial(commit_group, functions=functions))
            self.commits += commits
            if commits:
                self._telemetry.committed(time.monotonic() - began, len(group))
        except StorageFailed as error:
            # Not even rolling back worked. The next group tries again.
            outcomes = [Failed(error)] * len(group)
        finally:
            for waiter, outcome in zip(group, outcomes, strict=True):
                _answer(waiter.answer, outcome)
        self._opened = time.monotonic()
        self._window.committed(members=len(group), arrived=len(self._waiting))


def _answer(answer: asyncio.Future[Any], outcome: Outcome) -> None:
    if answer.done():
        return
    if isinstance(outcome, Done):
        answer.set_result(outcome.result)
    else:
        answer.set_exception(outcome.error)


def commit_group(
    connection: Connection, functions: Sequence[WriteFunction[Any]]
) -> tuple[list[Outcome], int]:
    """Run the functions in one transaction, or each in its own when that is lost. Blocks.

    Returns the outcome of each, in order, and the number of commits.
    """
    if len(functions) > 1:
        with contextlib.suppress(Error):
            return _commit_together(connection, functions)
    outcomes = [_commit_alone(connection, function) for function in functions]
    return outcomes, sum(isinstance(outcome, Done) for outcome in outcomes)


def _commit_together(
    connection: Connection, functions: Sequence[WriteFunction[Any]]
) -> tuple[list[Outcome], int]:
    """Raises Error when the whole group is lost."""
    try:
        connection.execute("BEGIN IMMEDIATE")
    except Error as error:
        # Nobody could begin: trying each alone would only wait for the same lock again and again.
        return [Failed(_error_for_caller(error))] * len(functions), 0
    try:
        outcomes = [_in_savepoint(connection, function) for function in functions]
        connection.execute("COMMIT")
    except Error:
        _roll_back(connection)
        raise
    return outcomes, 1


def _in_savepoint(connection: Connection, function: WriteFunction[Any]) -> Outcome:
    """Raises Error when SQLite has undone the transaction, and the savepoint with it."""
    connection.execute("SAVEPOINT member")
    outcome: Outcome
    try:
        outcome = Done(function(connection))
    except Exception as error:  # noqa: BLE001 (handed to the caller of the function)
        outcome = Failed(_error_for_caller(error))
        connection.execute("ROLLBACK TO member")
    connection.execute("RELEASE member")
    return outcome


def _commit_alone(connection: Connection, function: WriteFunction[Any]) -> Outcome:
    try:
        connection.execute("BEGIN IMMEDIATE")
        result = function(connection)
        connection.execute("COMMIT")
    except Exception as error:  # noqa: BLE001 (handed to the caller of the function)
        _roll_back(connection)
        return Failed(_error_for_caller(error))
    return Done(result)


def _roll_back(connection: Connection) -> None:
    # SQLite has done it already after some errors, a full disk among them.
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _checkpoint(connection: Connection, *, patience_ms: int) -> bool:
    connection.execute(f"PRAGMA busy_timeout={patience_ms}")
    try:
        (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    return not busy


def _error_for_caller(error: Exception) -> Exception:
    if isinstance(error, Error):
        failure = translated(error)
        failure.__cause__ = error
        return failure
    if isinstance(error, StopIteration):
        # A future cannot carry it.
        failure_of_function = RuntimeError("a write function raised StopIteration")
        failure_of_function.__cause__ = error
        return failure_of_function
    return error
