from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from agentctx.errors import DeadlineExceeded, StorageClosed, StorageFailed
from agentctx.storage.file import connection_thread, driver
from agentctx.storage.file.connection_thread import ConnectionThread
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.file.readers import Readers

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(open_connection(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (1)")
    return tmp_path / "a.db"


@pytest.fixture
async def readers(path: Path) -> AsyncIterator[Readers]:
    readers = await Readers.open(path, 2)
    yield readers
    await readers.close()


@pytest.fixture
async def reader(path: Path) -> AsyncIterator[Readers]:
    """A pool of one connection, so that each run gets the connection of the one before."""
    readers = await Readers.open(path, 1)
    yield readers
    await readers.close()


def count(connection: Connection) -> int:
    (rows,) = connection.execute("SELECT count(*) FROM t").fetchone()
    return int(rows)


def endless(connection: Connection) -> object:
    return connection.execute(ENDLESS).fetchone()


def insert(path: Path) -> None:
    with closing(open_connection(path)) as connection:
        connection.execute("INSERT INTO t VALUES (2)")


async def assert_clean(reader: Readers, rows: int = 1) -> None:
    assert await reader.run(count) == rows
    assert await reader.run(lambda c: c.execute("SELECT count(*) FROM sqlite_temp_schema").fetchone()) == (0,)


async def test_all_statements_of_a_run_see_one_snapshot(reader: Readers, path: Path) -> None:
    def count_twice(connection: Connection) -> tuple[int, int]:
        before = count(connection)
        insert(path)
        return before, count(connection)

    assert await reader.run(count_twice) == (1, 1)
    assert await reader.run(count) == 2


async def test_runs_as_many_functions_at_once_as_there_are_connections(readers: Readers) -> None:
    together = threading.Barrier(2)
    await asyncio.gather(*(readers.run(lambda _: together.wait(5)) for _ in range(2)))


async def test_serves_more_callers_than_connections(readers: Readers) -> None:
    assert await asyncio.gather(*(readers.run(count) for _ in range(50))) == [1] * 50


async def test_cannot_write(reader: Readers) -> None:
    with pytest.raises(StorageFailed):
        await reader.run(lambda c: c.execute("INSERT INTO t VALUES (9)"))
    await assert_clean(reader)


async def test_a_failing_function_leaves_the_connection_clean(reader: Readers) -> None:
    def fail(connection: Connection) -> None:
        connection.execute("CREATE TEMP TABLE ids (id)")
        connection.execute("SELECT x FROM t")
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await reader.run(fail)
    await assert_clean(reader)


async def test_temporary_tables_are_dropped_after_the_run(reader: Readers) -> None:
    def use_temporary_table(connection: Connection) -> list[tuple[int]]:
        connection.execute("CREATE TEMP TABLE ids (id)")
        connection.execute("INSERT INTO ids VALUES (1)")
        return connection.execute("SELECT x FROM t JOIN ids ON id = x").fetchall()

    assert await reader.run(use_temporary_table) == [(1,)]
    assert await reader.run(use_temporary_table) == [(1,)]
    await assert_clean(reader)


async def test_a_finished_run_keeps_no_snapshot(reader: Readers, path: Path) -> None:
    await reader.run(lambda c: c.execute("SELECT x FROM t UNION ALL SELECT 5").fetchone())
    insert(path)
    with closing(open_connection(path)) as connection:
        connection.execute("PRAGMA busy_timeout = 0")
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


class TestDeadline:
    async def test_a_long_statement_is_interrupted(self, reader: Readers) -> None:
        with pytest.raises(DeadlineExceeded):
            await reader.run(endless, timeout_s=0.02)
        await assert_clean(reader)

    async def test_an_interrupt_hidden_by_the_function_still_misses_the_deadline(
        self, reader: Readers
    ) -> None:
        def hide(connection: Connection) -> list[object]:
            try:
                return connection.execute(ENDLESS).fetchall()
            except driver.Error:
                return []

        with pytest.raises(DeadlineExceeded):
            await reader.run(hide, timeout_s=0.02)
        await assert_clean(reader)

    async def test_many_short_statements_are_interrupted(self, reader: Readers) -> None:
        def run_short_statements(connection: Connection) -> None:
            while True:
                count(connection)

        with pytest.raises(DeadlineExceeded):
            await reader.run(run_short_statements, timeout_s=0.02)
        await assert_clean(reader)

    async def test_an_interrupt_between_two_statements_is_repeated(
        self, reader: Readers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        interrupted = threading.Event()
        interrupt = ConnectionThread.interrupt

        def interrupt_and_signal(thread: ConnectionThread) -> None:
            interrupt(thread)
            interrupted.set()

        def run_late(connection: Connection) -> object:
            assert interrupted.wait(5)
            return endless(connection)

        monkeypatch.setattr(ConnectionThread, "interrupt", interrupt_and_signal)
        with pytest.raises(DeadlineExceeded):
            await reader.run(run_late, timeout_s=0.02)
        await assert_clean(reader)

    async def test_a_half_read_statement_leaves_the_connection_clean(self, reader: Readers) -> None:
        half_read: list[object] = []

        def nested(connection: Connection) -> None:
            rows = connection.execute("SELECT 1 UNION ALL SELECT 2")
            half_read.append(rows.fetchone())
            endless(connection)

        with pytest.raises(DeadlineExceeded):
            await reader.run(nested, timeout_s=0.02)
        await assert_clean(reader)

    async def test_waiting_for_a_connection_times_out(self, reader: Readers) -> None:
        started, may_continue = threading.Event(), threading.Event()

        def hold(_: Connection) -> bool:
            started.set()
            return may_continue.wait(5)

        holding = asyncio.create_task(reader.run(hold))
        assert await asyncio.to_thread(started.wait, 5)
        with pytest.raises(DeadlineExceeded):
            await reader.run(count, wait_s=0.01)
        may_continue.set()
        assert await holding
        await assert_clean(reader)

    async def test_waiting_for_a_connection_does_not_count_towards_the_read_timeout(
        self, reader: Readers
    ) -> None:
        started, may_continue = threading.Event(), threading.Event()

        def hold(_: Connection) -> bool:
            started.set()
            return may_continue.wait(5)

        holding = asyncio.create_task(reader.run(hold))
        assert await asyncio.to_thread(started.wait, 5)
        waiting = asyncio.create_task(reader.run(lambda connection: connection.total_changes, timeout_s=0.1))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await asyncio.shield(waiting)
        may_continue.set()
        assert await holding
        assert await waiting == 0

    async def test_a_blocked_event_loop_does_not_count_towards_the_read_timeout(
        self, reader: Readers
    ) -> None:
        loop = asyncio.get_running_loop()

        def read(connection: Connection) -> int:
            loop.call_soon_threadsafe(threading.Event().wait, 0.2)
            return connection.total_changes

        assert await reader.run(read, timeout_s=0.05) == 0


class TestCancellation:
    async def test_the_statement_is_interrupted_and_the_connection_left_clean(self, reader: Readers) -> None:
        started = threading.Event()

        def slow(connection: Connection) -> object:
            connection.execute("CREATE TEMP TABLE ids (id)")
            started.set()
            return endless(connection)

        caller = asyncio.create_task(reader.run(slow, timeout_s=60))
        assert await asyncio.to_thread(started.wait, 5)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await assert_clean(reader)

    async def test_a_cancelled_waiter_lets_the_next_one_in(self, reader: Readers) -> None:
        started, may_continue = threading.Event(), threading.Event()

        def hold(_: Connection) -> bool:
            started.set()
            return may_continue.wait(5)

        holding = asyncio.create_task(reader.run(hold))
        assert await asyncio.to_thread(started.wait, 5)
        cancelled, patient = asyncio.create_task(reader.run(count)), asyncio.create_task(reader.run(count))
        await asyncio.sleep(0)
        cancelled.cancel()
        may_continue.set()
        assert await holding
        assert await patient == 1
        assert cancelled.cancelled()


class TestOpenAndClose:
    async def test_opening_a_missing_database_fails(self, tmp_path: Path) -> None:
        with pytest.raises(StorageFailed):
            await Readers.open(tmp_path / "missing.db", 2)

    async def test_a_failed_opening_closes_the_connections_already_open(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened: list[Connection] = []

        def open_one(database: Path, *, readonly: bool) -> Connection:
            if opened:
                raise StorageFailed("no more")
            opened.append(open_connection(database, readonly=readonly))
            return opened[0]

        monkeypatch.setattr(connection_thread, "open_connection", open_one)
        with pytest.raises(StorageFailed, match="no more"):
            await Readers.open(path, 2)
        with pytest.raises(Exception, match="closed database"):
            opened[0].execute("SELECT 1")

    async def test_close_lets_runs_finish_and_refuses_waiting_ones(self, path: Path) -> None:
        reader = await Readers.open(path, 1)
        started, may_continue = threading.Event(), threading.Event()

        def hold(connection: Connection) -> int:
            started.set()
            assert may_continue.wait(5)
            return count(connection)

        running = asyncio.create_task(reader.run(hold))
        assert await asyncio.to_thread(started.wait, 5)
        waiting = asyncio.create_task(reader.run(count))
        await asyncio.sleep(0)
        closing_task = asyncio.create_task(reader.close())
        await asyncio.sleep(0)
        may_continue.set()
        await closing_task
        assert await running == 1
        with pytest.raises(StorageClosed):
            await waiting
        with pytest.raises(StorageClosed):
            await reader.run(count)
        await reader.close()

    async def test_deadlines_apply_while_closing(self, path: Path) -> None:
        reader = await Readers.open(path, 1)
        started = threading.Event()

        def slow(connection: Connection) -> object:
            started.set()
            return endless(connection)

        running = asyncio.create_task(reader.run(slow, timeout_s=0.05))
        assert await asyncio.to_thread(started.wait, 5)
        await reader.close()
        with pytest.raises(DeadlineExceeded):
            await running


async def test_every_connection_is_prepared_once_including_reopened_ones(path: Path) -> None:
    prepared = []

    def prepare(connection: Connection) -> None:
        prepared.append(connection)
        connection.execute("CREATE TABLE temp.scratch (x)")

    def use(connection: Connection) -> int:
        connection.execute("INSERT INTO temp.scratch VALUES (1)")
        (rows,) = connection.execute("SELECT count(*) FROM temp.scratch").fetchone()
        return int(rows)

    readers = await Readers.open(path, 1, prepare=prepare)
    try:
        assert [await readers.run(use), await readers.run(use)] == [1, 1]
        assert len(prepared) == 1
        async with readers.paused():
            pass
        assert await readers.run(use) == 1
        assert len(prepared) == 2
    finally:
        await readers.close()


async def test_a_thread_keeps_no_result_once_told(readers: Readers) -> None:
    class Result:
        """Can be referred to weakly."""

    made: list[weakref.ref[Result]] = []

    def read(_: Connection) -> Result:
        result = Result()
        made.append(weakref.ref(result))
        return result

    await readers.run(read)
    await readers.drop_results()
    gc.collect()
    assert made[0]() is None
