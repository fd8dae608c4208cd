from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from agentctx.errors import DeadlineExceeded, StorageClosed, StorageFailed
from agentctx.sqlite import connection_thread, driver
from agentctx.sqlite.connection_thread import ConnectionThread
from agentctx.sqlite.driver import Connection, open_connection
from agentctx.sqlite.readers import Readers

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
    """A pool of one: what a run leaves behind, the next one meets."""
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
    def twice(connection: Connection) -> tuple[int, int]:
        before = count(connection)
        insert(path)
        return before, count(connection)

    assert await reader.run(twice) == (1, 1)
    assert await reader.run(count) == 2


async def test_runs_at_once_as_many_as_there_are_connections(readers: Readers) -> None:
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


async def test_temporary_tables_work_and_are_gone_afterwards(reader: Readers) -> None:
    def with_table(connection: Connection) -> list[tuple[int]]:
        connection.execute("CREATE TEMP TABLE ids (id)")
        connection.execute("INSERT INTO ids VALUES (1)")
        return connection.execute("SELECT x FROM t JOIN ids ON id = x").fetchall()

    assert await reader.run(with_table) == [(1,)]
    assert await reader.run(with_table) == [(1,)]
    await assert_clean(reader)


async def test_an_ended_run_keeps_no_snapshot(reader: Readers, path: Path) -> None:
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

    async def test_an_interrupt_that_the_function_hides_is_still_a_missed_deadline(
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
        def short_ones(connection: Connection) -> None:
            while True:
                count(connection)

        with pytest.raises(DeadlineExceeded):
            await reader.run(short_ones, timeout_s=0.02)
        await assert_clean(reader)

    async def test_an_interrupt_between_two_statements_is_repeated(
        self, reader: Readers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        interrupted = threading.Event()
        interrupt = ConnectionThread.interrupt

        def announced(thread: ConnectionThread) -> None:
            interrupt(thread)
            interrupted.set()

        def late(connection: Connection) -> object:
            assert interrupted.wait(5)
            return endless(connection)

        monkeypatch.setattr(ConnectionThread, "interrupt", announced)
        with pytest.raises(DeadlineExceeded):
            await reader.run(late, timeout_s=0.02)
        await assert_clean(reader)

    async def test_with_another_statement_half_read_the_connection_is_clean_again(
        self, reader: Readers
    ) -> None:
        half_read: list[object] = []

        def nested(connection: Connection) -> None:
            rows = connection.execute("SELECT 1 UNION ALL SELECT 2")
            half_read.append(rows.fetchone())
            endless(connection)

        with pytest.raises(DeadlineExceeded):
            await reader.run(nested, timeout_s=0.02)
        await assert_clean(reader)

    async def test_waiting_for_a_connection_ends_too(self, reader: Readers) -> None:
        started, go_on = threading.Event(), threading.Event()

        def hold(_: Connection) -> bool:
            started.set()
            return go_on.wait(5)

        holding = asyncio.create_task(reader.run(hold))
        assert await asyncio.to_thread(started.wait, 5)
        with pytest.raises(DeadlineExceeded):
            await reader.run(count, wait_s=0.01)
        go_on.set()
        assert await holding
        await assert_clean(reader)

    async def test_waiting_for_a_connection_takes_no_time_from_reading(self, reader: Readers) -> None:
        started, go_on = threading.Event(), threading.Event()

        def hold(_: Connection) -> bool:
            started.set()
            return go_on.wait(5)

        holding = asyncio.create_task(reader.run(hold))
        assert await asyncio.to_thread(started.wait, 5)
        waiting = asyncio.create_task(reader.run(lambda connection: connection.total_changes, timeout_s=0.1))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await asyncio.shield(waiting)
        go_on.set()
        assert await holding
        assert await waiting == 0

    async def test_an_event_loop_that_is_held_up_takes_no_time_from_reading(self, reader: Readers) -> None:
        loop = asyncio.get_running_loop()

        def read(connection: Connection) -> int:
            loop.call_soon_threadsafe(threading.Event().wait, 0.2)
            return connection.total_changes

        assert await reader.run(read, timeout_s=0.05) == 0


class TestCancellation:
    async def test_the_statement_is_interrupted_and_the_connection_clean(self, reader: Readers) -> None:
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

    async def test_while_waiting_for_a_connection_the_place_is_given_on(self, reader: Readers) -> None:
        started, go_on = threading.Event(), threading.Event()

        def hold(_: Connection) -> bool:
            started.set()
            return go_on.wait(5)

        holding = asyncio.create_task(reader.run(hold))
        assert await asyncio.to_thread(started.wait, 5)
        cancelled, patient = asyncio.create_task(reader.run(count)), asyncio.create_task(reader.run(count))
        await asyncio.sleep(0)
        cancelled.cancel()
        go_on.set()
        assert await holding
        assert await patient == 1
        assert cancelled.cancelled()


class TestOpenAndClose:
    async def test_opening_a_missing_database_fails(self, tmp_path: Path) -> None:
        with pytest.raises(StorageFailed):
            await Readers.open(tmp_path / "missing.db", 2)

    async def test_opening_that_fails_halfway_closes_what_was_open(
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

    async def test_close_lets_runs_finish_and_refuses_those_that_wait(self, path: Path) -> None:
        reader = await Readers.open(path, 1)
        started, go_on = threading.Event(), threading.Event()

        def hold(connection: Connection) -> int:
            started.set()
            assert go_on.wait(5)
            return count(connection)

        running = asyncio.create_task(reader.run(hold))
        assert await asyncio.to_thread(started.wait, 5)
        waiting = asyncio.create_task(reader.run(count))
        await asyncio.sleep(0)
        closing_task = asyncio.create_task(reader.close())
        await asyncio.sleep(0)
        go_on.set()
        await closing_task
        assert await running == 1
        with pytest.raises(StorageClosed):
            await waiting
        with pytest.raises(StorageClosed):
            await reader.run(count)
        await reader.close()

    async def test_a_deadline_holds_while_closing(self, path: Path) -> None:
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


async def test_every_connection_is_prepared_once_also_those_opened_again(path: Path) -> None:
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
