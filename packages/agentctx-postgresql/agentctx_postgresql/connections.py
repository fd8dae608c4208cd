"""A daemon's connections to a PostgreSQL server: writers, readers, and recovery from its outages.

A function that is run here gets a connection in a transaction of its own. A writing function may run more
than once, so it must have no effect other than through its connection.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

import asyncpg
import structlog

from agentctx.config.schema import displayed_url
from agentctx.errors import DeadlineExceeded, StorageClosed, StorageFailed
from agentctx.storage.faults import Faults, ReadContext
from agentctx.times import Clock, wall_clock
from agentctx_postgresql import driver, pgvector
from agentctx_postgresql.clock import ServerClock
from agentctx_postgresql.driver import Connection, Server, Transaction, TransactionId
from agentctx_postgresql.erasures import Erasures

log = structlog.get_logger("agentctx.storage")

P = ParamSpec("P")
T = TypeVar("T")
Work: TypeAlias = Callable[[Connection], Awaitable[T]]
Query: TypeAlias = Callable[Concatenate[Connection, P], Awaitable[T]]
Method: TypeAlias = Callable[Concatenate["PostgresqlPart", P], Coroutine[Any, Any, T]]

WRITERS: Final = 16
"""Concurrent connections share the server's fsyncs; a single one would wait for each."""
READ_TIMEOUT_S: Final = 5.0
CHECK_TIMEOUT_S: Final = 60.0
MAX_ATTEMPTS: Final = 8
PROBE_S: Final = 0.5
OUTCOME_WAIT_S: Final = 15.0

_STATE: Final = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool"


class PostgresqlConnections:
    """A pool of writers and a pool of readers, with the state shared by the parts of the engine."""

    def __init__(
        self,
        server: Server,
        *,
        daemon: str,
        readers: int,
        clock: Clock = wall_clock,
        server_clock: Clock | None = None,
    ) -> None:
        self.server = server
        self.daemon = daemon
        """This daemon's id, which survives restarts: it owns leases."""
        self.compared_clock = ServerClock()
        self.clock: Clock = server_clock or self.compared_clock
        """The server's clock, by which entries expire and leases end."""
        self._local_clock = clock
        self.erasures = Erasures()
        self.faults = Faults()
        """Damage found by reads."""
        self.one_check = asyncio.Lock()
        """Held by a check, so that only one runs at a time: it occupies a connection for long."""
        self.commits = 0
        self.fault: StorageFailed | None = None
        """Why writes fail; cleared by the probe."""
        self._is_away = False
        self._readers_count = readers
        self._running: set[asyncio.Task[Any]] = set()
        self._probe: asyncio.Task[None] | None = None
        self._is_closed = False
        self._writers: Any = None
        self._readers: Any = None

    async def open(self) -> None:
        """Connect to the server.

        Raises:
            ConfigInvalid: the server rejects the user or the password, or lacks the database; or the URL is
                invalid.
            StorageFailed: the server does not answer, or denies the role.
        """
        kwargs = self.server.arguments | {"min_size": 0, "reset": _no_reset, "init": _init}
        try:
            self._writers = await asyncpg.create_pool(**kwargs, max_size=WRITERS)
            self._readers = await asyncpg.create_pool(**kwargs, max_size=self._readers_count)
            await self.compared_clock.compare(self._writers)
        except (*driver.ERRORS, ValueError) as error:
            await self.close()
            raise driver.not_opened(error, displayed_url(self.server.url)) from error

    async def prepare(self, work: Work[T]) -> T:
        """Run a function that manages its own transactions. Raises `StorageFailed`."""
        try:
            async with self._writers.acquire() as conn:
                return await work(conn)
        except driver.ERRORS as error:
            raise driver.translated(error) from error

    async def close(self) -> None:
        """Finish accepted work, then close every connection. Idempotent."""
        self._is_closed = True
        if self._running:
            await asyncio.wait(self._running)
        if self._probe is not None:
            self._probe.cancel()
        for pool in (self._readers, self._writers):
            if pool is not None:
                with suppress(TimeoutError, *driver.ERRORS):
                    await asyncio.wait_for(pool.close(), driver.CONNECT_TIMEOUT_S)

    async def read(self, work: Work[T], timeout_s: float = READ_TIMEOUT_S) -> T:
        """Run a read-only function in one snapshot.

        Raises:
            DeadlineExceeded: the function was not done within `timeout_s`.
            StorageFailed: the server is away.
        """

        async def in_snapshot(conn: Connection) -> T:
            async with driver.in_snapshot(conn):
                return await work(conn)

        return await self._run(in_snapshot, timeout_s)

    async def query(self, work: Work[T]) -> T:
        """Like `read`, but each statement sees what was committed before it, which saves two round trips.

        With a pooler, the same as `read`: outside a transaction, it may split a statement between servers.
        """
        return await (self.read if self.server.is_pooled else self._run)(work, READ_TIMEOUT_S)

    async def _run(self, work: Work[T], timeout_s: float) -> T:
        self._refuse(writes=False)
        try:
            async with asyncio.timeout(timeout_s):
                return await _retried(partial(self._read_once, work))
        except TimeoutError as error:
            raise DeadlineExceeded(f"The database did not answer within {timeout_s:g} s.") from error
        except driver.ERRORS as error:
            raise self._failed(error) from error

    async def _read_once(self, work: Work[T]) -> T:
        async with self._readers.acquire() as conn:
            return await work(conn)

    async def check(self, work: Work[T]) -> T:
        """Like `read`, but for up to a minute, and only one at a time."""
        async with self.one_check:
            return await self.read(work, CHECK_TIMEOUT_S)

    async def write(
        self, work: Work[T], committed: Callable[[T], None] | None = None, *, begin: str = driver.BEGIN
    ) -> T:
        """Run a function as one transaction, which is on the server's disk on return.

        It is retried after a deadlock and similar errors, and after a lost connection unless it was
        committed. Cancelling the caller does not cancel it. `committed` is called with the result even if
        the caller is gone.
        `begin` is the SQL that begins the transaction, such as `locks.BEGIN_SHARING_SPACES`.

        Raises:
            StorageFailed: nothing was changed, or the message says that this is unknown.
        """
        return await self._write(partial(self._attempt, work, begin), committed)

    async def write_statement(self, statement: Work[T], outcome: Work[T | None]) -> T:
        """Run a function whose only change is made by one statement, which saves the round trips of BEGIN
        and COMMIT. Otherwise like `write`.

        `outcome` returns the result of a statement that was committed but not acknowledged; else None.

        With a pooler, the same as `write`: outside a transaction, it may split a statement between servers.

        Raises:
            StorageFailed: nothing was changed, or the message says that this is unknown.
        """
        if self.server.is_pooled:
            return await self.write(statement)
        return await self._write(partial(self._attempt_statement, statement, outcome))

    async def _write(
        self, attempt: Callable[[], Coroutine[Any, Any, T]], committed: Callable[[T], None] | None = None
    ) -> T:
        self._refuse(writes=True)
        task = asyncio.create_task(self._complete(attempt, committed))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _complete(
        self, attempt: Callable[[], Awaitable[T]], committed: Callable[[T], None] | None
    ) -> T:
        try:
            result = await _retried(attempt)
        except driver.ERRORS as error:
            raise self._failed(error) from error
        if committed is not None:
            committed(result)
        return result

    async def _attempt_statement(self, statement: Work[T], outcome: Work[T | None]) -> T:
        """Run the function once; an error means that nothing was committed."""
        async with self._writers.acquire() as conn:
            try:
                result = await statement(conn)
            except driver.ERRORS as error:
                if not driver.is_lost(error):
                    raise
                result = None
        if result is None:
            result = await self._repeat_statement(statement, outcome)
        self.commits += 1
        return result

    async def _repeat_statement(self, statement: Work[T], outcome: Work[T | None]) -> T:
        """Find the outcome of a statement that got no reply, or run it again.

        A statement that is still running has its rows locked: the same one waits for its end, and fails if it
        was committed.

        Raises:
            StorageFailed: the outcome cannot be determined.
        """
        deadline = time.monotonic() + OUTCOME_WAIT_S
        while time.monotonic() < deadline:
            try:
                async with self._writers.acquire() as conn:
                    return await outcome(conn) or await statement(conn)
            except driver.ERRORS as error:
                if not (driver.is_lost(error) or driver.is_retryable(error)):
                    raise
            await asyncio.sleep(PROBE_S / 4)
        raise self._failed(_unknown_outcome())

    async def _attempt(self, work: Work[T], begin: str) -> T:
        """Run the function once; an error means that nothing was committed."""
        committing: TransactionId | None = None
        try:
            async with self._transaction(begin) as transaction:
                result = await work(transaction)
                committing = await transaction.mark()
        except driver.ERRORS as error:
            if committing is None or not driver.is_lost(error) or not await self._was_committed(*committing):
                raise
        self.commits += committing is not None
        return result

    async def _was_committed(self, transaction: str, epoch: str | None) -> bool:
        """Return whether a transaction was committed whose COMMIT got no answer.

        Raises:
            StorageFailed: the outcome cannot be determined.
        """
        deadline = time.monotonic() + OUTCOME_WAIT_S
        while time.monotonic() < deadline:
            with suppress(*driver.ERRORS):
                async with self._writers.acquire() as conn:
                    present = await conn.fetchval(f"SELECT {driver.SERVER_EPOCH}")
                    status = await _status(conn, transaction)
                if present is None or (status == "in progress" and present == epoch):
                    await asyncio.sleep(PROBE_S / 4)
                    continue
                if status in {"aborted", "in progress", "unknown"}:
                    return False
                if status == "committed" and present == epoch:
                    return True
                break  # after a crash, another transaction may have its number
            await asyncio.sleep(PROBE_S / 4)
        raise self._failed(_unknown_outcome())

    @asynccontextmanager
    async def _transaction(self, begin: str) -> AsyncIterator[Transaction]:
        async with self._writers.acquire() as conn, driver.transaction(conn, begin):
            yield Transaction(conn)

    def server_ms(self, local_ms: int) -> int:
        """Convert a time of this daemon's clock to the server's clock."""
        return local_ms + self.clock() - self._local_clock()

    def _refuse(self, *, writes: bool) -> None:
        if self._is_closed:
            raise StorageClosed("The storage is closed.")
        if self.fault is not None and (writes or self._is_away):
            raise StorageFailed(self.fault.message, hint=self.fault.hint)

    def _failed(self, error: BaseException) -> BaseException:
        """Return the error for the caller. Until the server is back, later callers get it immediately."""
        failed = error if isinstance(error, StorageFailed) else driver.translated(error)
        is_readonly = getattr(error, "sqlstate", None) == "25006"
        if (
            isinstance(failed, StorageFailed)
            and (driver.is_lost(error) or is_readonly)
            and not self._is_closed
        ):
            if self.fault is None:
                log.error("storage_away", reason=failed.message, hint=failed.hint)
            self.fault, self._is_away = failed, not is_readonly
            if self._probe is None or self._probe.done():
                self._probe = asyncio.create_task(self._reconnect(), name="PostgreSQL probe")
        return failed

    async def _reconnect(self) -> None:
        while self.fault is not None:
            await asyncio.sleep(PROBE_S)
            try:
                await self._look_for_server()
            except driver.ERRORS as error:
                failed = driver.translated(error)
                self.fault = failed if isinstance(failed, StorageFailed) else self.fault
        log.info("storage_back")

    async def _look_for_server(self) -> None:
        async with self._writers.acquire() as conn:
            is_readonly = await conn.fetchval(_STATE)
            self._is_away = False
            if not is_readonly:
                self.fault = None


class PostgresqlPart:
    """A part of the engine: implements one protocol over the connections shared by all parts."""

    def __init__(self, connections: PostgresqlConnections) -> None:
        self.db = connections


def reads(function: Query[P, T], *, timeout_s: float = READ_TIMEOUT_S) -> Method[P, T]:
    """Turn a function into a method that runs it in one snapshot."""
    return _method(partial(PostgresqlConnections.read, timeout_s=timeout_s), function)


def queries(function: Query[P, T]) -> Method[P, T]:
    """Turn a function that runs one statement into a method that runs it outside a transaction."""
    return _method(PostgresqlConnections.query, function)


def looks_up(
    function: Callable[Concatenate[Connection, ReadContext, P], Awaitable[T]], *, in_snapshot: bool = False
) -> Method[P, T]:
    """Turn a function that also takes the context of the read into a method, as `queries` or `reads` does."""

    async def method(self: PostgresqlPart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        context = ReadContext(self.db.clock(), self.db.faults)
        run = self.db.read if in_snapshot else self.db.query
        return await run(lambda conn: function(conn, context, *args, **kwargs))

    method.__doc__ = function.__doc__
    return method


def _method(run: Callable[..., Awaitable[T]], function: Query[P, T]) -> Method[P, T]:
    async def method(self: PostgresqlPart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await run(self.db, lambda conn: function(conn, *args, **kwargs))

    method.__doc__ = function.__doc__
    return method


def _unknown_outcome() -> StorageFailed:
    return StorageFailed(
        "The connection to PostgreSQL was lost during the commit: it may or may not have been saved.",
        hint="Send it again with the same Idempotency-Key, so that it is saved only once.",
    )


async def _init(conn: Connection) -> None:
    driver.enable_keepalive(conn)
    await pgvector.register(conn)


async def _no_reset(_: Connection) -> None:
    """Skip the reset: nothing here changes a session, so reuse needs no round trip."""


async def _status(conn: Connection, transaction: str) -> str | None:
    """Return the server's status of a transaction; "unknown" if it never had one with this number."""
    try:
        status: str | None = await conn.fetchval("SELECT pg_xact_status($1::text::xid8)", transaction)
    except asyncpg.InvalidParameterValueError:
        return "unknown"
    return status


async def _retried(attempt: Callable[[], Awaitable[T]]) -> T:
    """Retry with pauses of a few milliseconds at first, about a second in total."""
    for number in range(1, MAX_ATTEMPTS):
        try:
            return await attempt()
        except driver.ERRORS as error:
            if not driver.is_retryable(error):
                raise
            await asyncio.sleep(0.005 * 2**number)
    return await attempt()
