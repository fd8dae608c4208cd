from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentctx.errors import StorageClosed, StorageFailed, StorageFull
from agentctx.storage.file import driver
from agentctx.storage.file.checkpoint import DUE_FRAMES
from agentctx.storage.file.connection_thread import ConnectionThread
from agentctx.storage.file.copy import CopyPace, copy_pages
from agentctx.storage.file.driver import BUSY_TIMEOUT_MS, Connection, open_connection
from agentctx.storage.file.readers import Readers
from agentctx.storage.file.write_groups import MAX_GROUP
from agentctx.storage.file.writer import Writer
from tests.storage.file.test_recovery import until_sound

ROOM = 64


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
async def writer(path: Path) -> AsyncIterator[Writer]:
    writer = await Writer.open(path)
    await writer.run(lambda c: c.execute("CREATE TABLE t (x UNIQUE)"))
    yield writer
    await writer.close()


def insert(value: Any) -> Callable[[Connection], Any]:
    def insert_value(connection: Connection) -> Any:
        connection.execute("INSERT INTO t VALUES (?)", (value,))
        return value

    return insert_value


def stored(path: Path) -> set[Any]:
    with closing(open_connection(path, readonly=True)) as connection:
        return {x for (x,) in connection.execute("SELECT x FROM t")}


class Plug:
    """Blocks the writer until it is pulled, so that later writes form one group."""

    def __init__(self, writer: Writer) -> None:
        self._started, self._may_continue = threading.Event(), threading.Event()
        self._call = asyncio.create_task(writer.run(self._hold))

    def _hold(self, connection: Connection) -> None:
        self._started.set()
        assert self._may_continue.wait(10)

    async def wait_until_blocking(self) -> None:
        assert await asyncio.to_thread(self._started.wait, 10)

    async def pull(self) -> None:
        self._may_continue.set()
        await self._call


async def commit_as_one_group(writer: Writer, *functions: Callable[[Connection], Any]) -> list[Any]:
    """Commit functions together; return their results or exceptions."""
    plug = Plug(writer)
    await plug.wait_until_blocking()
    calls = [asyncio.create_task(writer.run(function)) for function in functions]
    await asyncio.sleep(0)
    await plug.pull()
    return await asyncio.gather(*calls, return_exceptions=True)


class TestRun:
    async def test_returns_the_result_after_the_commit(self, writer: Writer, path: Path) -> None:
        assert await writer.run(insert("a")) == "a"
        assert stored(path) == {"a"}

    async def test_a_group_is_one_commit_with_a_result_for_each(self, writer: Writer, path: Path) -> None:
        before = writer.commits
        assert await commit_as_one_group(writer, *map(insert, range(50))) == list(range(50))
        assert writer.commits - before == 2  # the plug and the group
        assert stored(path) == set(range(50))

    async def test_more_writes_than_fit_into_a_group_need_another_commit(
        self, writer: Writer, path: Path
    ) -> None:
        before = writer.commits
        await commit_as_one_group(writer, *map(insert, range(MAX_GROUP + 10)))
        assert writer.commits - before == 3
        assert stored(path) == set(range(MAX_GROUP + 10))

    async def test_sixteen_callers_need_at_most_one_commit_per_eight_saves(self, writer: Writer) -> None:
        each, callers, before = 40, 16, writer.commits

        async def caller(number: int) -> None:
            for step in range(each):
                await writer.run(insert((number * each) + step))

        await asyncio.gather(*map(caller, range(callers)))
        assert writer.commits - before <= each * callers / 8

    async def test_a_lone_caller_gets_one_commit_per_write(self, writer: Writer) -> None:
        before = writer.commits
        for value in range(30):
            await writer.run(insert(value))
        assert writer.commits - before == 30

    async def test_a_failing_function_in_a_group_undoes_only_itself(self, writer: Writer, path: Path) -> None:
        failure = ValueError("mine")

        def fail(connection: Connection) -> None:
            connection.execute("INSERT INTO t VALUES ('undone')")
            raise failure

        assert await commit_as_one_group(writer, insert("a"), fail, insert("b")) == ["a", failure, "b"]
        assert stored(path) == {"a", "b"}

    async def test_a_failing_lone_function_is_undone(self, writer: Writer, path: Path) -> None:
        def fail(connection: Connection) -> None:
            connection.execute("INSERT INTO t VALUES ('undone')")
            raise KeyError("k")

        with pytest.raises(KeyError):
            await writer.run(fail)
        assert await writer.run(insert("a")) == "a"
        assert stored(path) == {"a"}

    async def test_driver_errors_are_translated(self, writer: Writer) -> None:
        await writer.run(insert("private"))
        with pytest.raises(StorageFailed) as alone:
            await writer.run(insert("private"))
        assert isinstance(alone.value.__cause__, driver.IntegrityError)
        assert "private" not in alone.value.message
        (grouped, fine) = await commit_as_one_group(writer, insert("private"), insert("b"))
        assert type(grouped) is StorageFailed
        assert fine == "b"

    async def test_a_function_may_handle_driver_errors(self, writer: Writer, path: Path) -> None:
        def insert_unless_present(connection: Connection) -> str:
            try:
                connection.execute("INSERT INTO t VALUES ('a')")
            except driver.IntegrityError:
                return "there"
            return "new"

        assert await commit_as_one_group(writer, insert_unless_present, insert_unless_present) == [
            "new",
            "there",
        ]
        assert stored(path) == {"a"}

    async def test_stop_iteration_reaches_only_its_caller(self, writer: Writer) -> None:
        def empty(connection: Connection) -> Any:
            return next(connection.execute("SELECT 1 WHERE 0"))

        (first, second) = await commit_as_one_group(writer, empty, insert("a"))
        assert isinstance(first, RuntimeError)
        assert second == "a"
        with pytest.raises(RuntimeError):
            await writer.run(empty)

    async def test_cancelling_a_caller_stops_neither_its_write_nor_others(
        self, writer: Writer, path: Path
    ) -> None:
        plug = Plug(writer)
        await plug.wait_until_blocking()
        heard: list[str] = []
        cancelled = asyncio.create_task(writer.run(insert("cancelled"), committed=heard.append))
        neighbour = asyncio.create_task(writer.run(insert("neighbour")))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await plug.pull()
        assert await neighbour == "neighbour"
        assert stored(path) == {"cancelled", "neighbour"}
        assert heard == ["cancelled"]

    async def test_cancelling_a_caller_during_its_write_leaves_no_open_transaction(
        self, writer: Writer, path: Path
    ) -> None:
        started, may_continue = threading.Event(), threading.Event()

        def slow(connection: Connection) -> None:
            connection.execute("INSERT INTO t VALUES ('slow')")
            started.set()
            assert may_continue.wait(10)

        caller = asyncio.create_task(writer.run(slow))
        assert await asyncio.to_thread(started.wait, 10)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        may_continue.set()
        assert await writer.run(insert("next")) == "next"
        assert stored(path) == {"slow", "next"}

    async def test_a_locked_database_fails_all_callers_then_recovers(
        self, writer: Writer, path: Path
    ) -> None:
        def disable_busy_timeout(connection: Connection) -> None:
            connection.execute("PRAGMA busy_timeout = 0")

        await writer.run(disable_busy_timeout)
        statements: list[str] = []
        await writer.run(lambda c: c.set_trace_callback(statements.append))
        with closing(open_connection(path)) as other:
            other.execute("BEGIN IMMEDIATE")
            failures = await asyncio.gather(*map(writer.run, map(insert, "ab")), return_exceptions=True)
            other.execute("ROLLBACK")
        assert [type(failure) for failure in failures] == [StorageFailed, StorageFailed]
        assert statements.count("BEGIN IMMEDIATE") == 1  # each attempt may wait for seconds
        assert await asyncio.gather(*map(writer.run, map(insert, "ab"))) == ["a", "b"]


class TestDiskFull:
    @pytest.fixture
    async def small_disk(self, writer: Writer) -> Writer:
        """A writer whose database has room for small rows, but not for big ones."""

        def limit(connection: Connection) -> None:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages + ROOM}")

        await writer.run(limit)
        return writer

    async def test_only_the_write_that_does_not_fit_fails(self, small_disk: Writer, path: Path) -> None:
        runs = Counter[str]()

        def counted(value: str) -> Callable[[Connection], Any]:
            def run(connection: Connection) -> Any:
                runs[value] += 1
                return insert(value)(connection)

            return run

        def insert_huge(connection: Connection) -> None:
            connection.execute("INSERT INTO t VALUES (zeroblob(4000000))")

        (first, error, last) = await commit_as_one_group(small_disk, counted("a"), insert_huge, counted("b"))
        assert (first, last) == ("a", "b")
        assert isinstance(error, StorageFull)
        assert stored(path) == {"a", "b"}
        assert runs["a"] == 2  # SQLite had rolled back the whole group

    async def test_a_function_that_hides_the_full_disk_still_fails(
        self, small_disk: Writer, path: Path
    ) -> None:
        def hide(connection: Connection) -> str:
            try:
                connection.execute("INSERT INTO t VALUES (zeroblob(4000000))")
            except driver.Error:
                return "all is well"
            return "stored"

        (first, hidden, last) = await commit_as_one_group(small_disk, insert("a"), hide, insert("b"))
        assert (first, last) == ("a", "b")
        assert isinstance(hidden, StorageFailed)
        assert stored(path) == {"a", "b"}

    async def test_reads_continue_and_writes_resume_when_there_is_space(
        self, small_disk: Writer, path: Path
    ) -> None:
        await small_disk.run(insert("before"))

        def insert_huge(connection: Connection) -> None:
            connection.execute("INSERT INTO t VALUES (zeroblob(4000000))")

        with pytest.raises(StorageFull):
            await small_disk.run(insert_huge)
        assert stored(path) == {"before"}
        await small_disk.run(lambda c: c.execute("PRAGMA max_page_count = 1000000").fetchall())
        await small_disk.run(insert_huge)
        assert stored(path) == {"before", b"\0" * 4_000_000}


class TestDiskFault:
    async def test_a_fault_that_rolls_back_the_group_refuses_all_and_starts_a_recovery(
        self, writer: Writer, path: Path
    ) -> None:
        runs = Counter[str]()

        class Fault(driver.OperationalError):
            sqlite_errorname = "SQLITE_IOERR_WRITE"

        def fail(connection: Connection) -> None:
            connection.execute("ROLLBACK")  # as SQLite does on its own
            raise Fault("disk I/O error")

        def neighbour(connection: Connection) -> None:
            runs["neighbour"] += 1
            connection.execute("INSERT INTO t VALUES ('neighbour')")

        answers = await commit_as_one_group(writer, neighbour, fail, neighbour)
        assert [type(answer) for answer in answers] == [StorageFailed] * 3
        assert runs["neighbour"] == 1, "no write is retried, or run outside of a transaction"
        assert all("IOERR" in str(answer) for answer in answers)
        await until_sound(writer)
        assert await writer.run(insert("a")) == "a"
        assert stored(path) == {"a"}


class TestCommitFails:
    @pytest.fixture
    async def with_foreign_key(self, writer: Writer) -> Writer:
        await writer.run(
            lambda c: c.execute(
                "CREATE TABLE child (t REFERENCES t (x) DEFERRABLE INITIALLY DEFERRED)",
            )
        )
        return writer

    async def test_only_the_violating_write_of_a_group_fails(
        self, with_foreign_key: Writer, path: Path
    ) -> None:
        def orphan(connection: Connection) -> None:
            connection.execute("INSERT INTO child VALUES ('nobody')")

        before = with_foreign_key.commits
        (first, error, last) = await commit_as_one_group(with_foreign_key, insert("a"), orphan, insert("b"))
        assert (first, last) == ("a", "b")
        assert type(error) is StorageFailed
        assert stored(path) == {"a", "b"}
        assert with_foreign_key.commits - before == 3  # the plug, a and b

    async def test_a_violating_lone_write_fails_and_the_writer_continues(
        self, with_foreign_key: Writer, path: Path
    ) -> None:
        with pytest.raises(StorageFailed):
            await with_foreign_key.run(lambda c: c.execute("INSERT INTO child VALUES ('nobody')"))
        assert await with_foreign_key.run(insert("a")) == "a"
        assert stored(path) == {"a"}


class TestClose:
    async def test_commits_pending_writes(self, path: Path) -> None:
        writer = await Writer.open(path)
        await writer.run(lambda c: c.execute("CREATE TABLE t (x)"))
        plug = Plug(writer)
        await plug.wait_until_blocking()
        calls = [asyncio.create_task(writer.run(insert(value))) for value in range(MAX_GROUP + 5)]
        await asyncio.sleep(0)
        closing_task = asyncio.create_task(writer.close())
        await asyncio.sleep(0)
        with pytest.raises(StorageClosed):
            await writer.run(insert("late"))
        await plug.pull()
        await closing_task
        assert await asyncio.gather(*calls) == list(range(MAX_GROUP + 5))
        assert stored(path) == set(range(MAX_GROUP + 5))

    async def test_is_idempotent(self, path: Path) -> None:
        writer = await Writer.open(path)
        await asyncio.gather(writer.close(), writer.close())
        await writer.close()
        with pytest.raises(StorageClosed):
            await writer.run(insert("late"))
        with pytest.raises(StorageClosed):
            await writer.checkpoint()

    async def test_still_commits_and_closes_when_cancelled(self, path: Path) -> None:
        writer = await Writer.open(path)
        await writer.run(lambda c: c.execute("CREATE TABLE t (x)"))
        plug = Plug(writer)
        await plug.wait_until_blocking()
        call = asyncio.create_task(writer.run(insert("a")))
        closing_task = asyncio.create_task(writer.close())
        await asyncio.sleep(0)
        closing_task.cancel()
        await plug.pull()
        with pytest.raises(asyncio.CancelledError):
            await closing_task
        assert await call == "a"
        assert not path.with_name("a.db-wal").exists()

    async def test_nobody_waits_forever_when_the_loop_cancels_the_worker(self, path: Path) -> None:
        writer = await Writer.open(path)
        plug = Plug(writer)
        await plug.wait_until_blocking()
        waiting = asyncio.create_task(writer.run(insert("a")))
        await asyncio.sleep(0)
        writer._worker.cancel()
        with pytest.raises(StorageClosed):
            await waiting
        with pytest.raises(StorageFailed):
            await plug.pull()
        with pytest.raises(StorageClosed):
            await writer.run(insert("b"))
        await writer.close()


class TestWhileClosed:
    @pytest.fixture
    async def readers(self, writer: Writer, path: Path) -> AsyncIterator[Readers]:
        readers = await Readers.open(path, 2)
        writer.recover_with(readers)
        yield readers
        await readers.close()

    @pytest.mark.parametrize("moment", ["closing readers", "closing", "working", "reopening"])
    async def test_reopens_everything_when_cancelled(
        self, writer: Writer, readers: Readers, path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reached, loop = asyncio.Event(), asyncio.get_running_loop()
        close, open_ = ConnectionThread.close, ConnectionThread.open

        async def close_and_signal(thread: ConnectionThread) -> None:
            if moment == ("closing" if thread is writer._connection.thread else "closing readers"):
                reached.set()
            await close(thread)

        async def open_and_signal(path: Path, *, readonly: bool = False) -> ConnectionThread:
            if moment == "reopening":
                reached.set()
            return await open_(path, readonly=readonly)

        def work(_: Path) -> None:
            if moment == "working":
                loop.call_soon_threadsafe(reached.set)

        monkeypatch.setattr(ConnectionThread, "close", close_and_signal)
        monkeypatch.setattr(ConnectionThread, "open", open_and_signal)
        working = asyncio.create_task(writer.while_closed(work, patience_ms=250))
        await reached.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert await writer.run(insert("a")) == "a"
        assert await readers.run(lambda c: c.execute("SELECT x FROM t").fetchall()) == [("a",)]
        assert writer.fault is None

    async def test_a_connection_that_cannot_be_opened_is_retried_in_the_background(
        self, writer: Writer, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        open_, fails = ConnectionThread.open, True

        async def open_or_fail(path: Path, *, readonly: bool = False) -> ConnectionThread:
            if fails:
                raise StorageFailed("Cannot open")
            return await open_(path, readonly=readonly)

        monkeypatch.setattr(ConnectionThread, "open", open_or_fail)
        await writer.while_closed(lambda _: None, patience_ms=250)
        with pytest.raises(StorageFailed, match="Cannot open"):
            await writer.run(insert("a"))
        fails = False
        await until_sound(writer)
        assert await writer.run(insert("b")) == "b"

    async def test_closing_the_writer_meanwhile_leaves_no_connection(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened: list[ConnectionThread] = []
        open_ = ConnectionThread.open

        async def open_and_record(path: Path) -> ConnectionThread:
            opened.append(await open_(path))
            return opened[-1]

        monkeypatch.setattr(ConnectionThread, "open", open_and_record)
        writer = await Writer.open(path)
        started, may_continue = threading.Event(), threading.Event()

        def work(_: Path) -> None:
            started.set()
            assert may_continue.wait(10)

        working = asyncio.create_task(writer.while_closed(work, patience_ms=250))
        assert await asyncio.to_thread(started.wait, 10)
        closing_task = asyncio.create_task(writer.close())
        await asyncio.sleep(0)
        may_continue.set()
        await asyncio.gather(working, closing_task)
        assert opened
        for thread in opened:
            with pytest.raises(StorageClosed):
                await thread.run(lambda _: None)
        with pytest.raises(StorageClosed):
            await writer.while_closed(work, patience_ms=250)


async def test_reads_and_writes_wait_while_the_database_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    writer = await Writer.open(path)
    readers = None
    try:
        await writer.run(_executes("CREATE TABLE t (x)"))
        readers = await Readers.open(path, 2)
        writer.recover_with(readers)

        def has_wal(closed: Path) -> bool:
            return closed.with_name("test.db-wal").exists()

        assert not await writer.while_closed(has_wal, patience_ms=250)
        await writer.run(_executes("INSERT INTO t VALUES ('a')"))
        assert await readers.run(lambda conn: conn.execute("SELECT x FROM t").fetchall()) == [("a",)]
        with pytest.raises(ZeroDivisionError):
            await writer.while_closed(lambda _: 1 // 0, patience_ms=250)
        await writer.run(_executes("INSERT INTO t VALUES ('b')"))
    finally:
        if readers is not None:
            await readers.close()
        await writer.close()


async def test_writes_are_refused_when_the_database_cannot_be_reopened(tmp_path: Path) -> None:
    """The folder may have been removed meanwhile, or the disk may fail."""
    folder = tmp_path / "data"
    folder.mkdir()
    writer = await Writer.open(folder / "test.db")
    await writer.run(_executes("CREATE TABLE t (x)"))
    may_continue = threading.Event()

    def move_folder(path: Path) -> None:
        assert may_continue.wait(10)
        path.parent.rename(tmp_path / "elsewhere")

    losing = asyncio.create_task(writer.while_closed(move_folder, patience_ms=250))
    waiting = asyncio.create_task(writer.run(_executes("INSERT INTO t VALUES ('a')")))
    await asyncio.sleep(0)
    may_continue.set()
    with pytest.raises(StorageFailed, match="was removed or moved"):
        await waiting
    await writer.close()
    await losing
    assert stored(tmp_path / "elsewhere" / "test.db") == set()


async def test_close_finishes_when_a_write_arrives_at_the_moment_of_a_fault(tmp_path: Path) -> None:
    writer = await Writer.open(tmp_path / "test.db")
    waiting = asyncio.create_task(writer.run(_executes("SELECT 1")))
    await asyncio.sleep(0)  # it is waiting for its group now
    writer.fault = StorageFailed("gone")
    await writer.close()
    with pytest.raises(StorageClosed):
        await waiting


def _executes(sql: str) -> Callable[[Connection], None]:
    def run(connection: Connection) -> None:
        connection.execute(sql)

    return run


async def test_callers_are_answered_before_the_state_of_the_wal_is_read(
    writer: Writer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_answered = threading.Event()

    def wait_for_answer(_: Connection) -> None:
        assert is_answered.wait(10)

    await writer.probe()  # the commit of the fixture has read the state
    monkeypatch.setattr("agentctx.storage.file.writer.readable_wal_state", wait_for_answer)
    try:
        async with asyncio.timeout(5):
            assert await writer.run(insert("a")) == "a"
        assert stored(path) == {"a"}
    finally:
        is_answered.set()


async def test_checkpoint_empties_the_wal_unless_a_reader_prevents_it(writer: Writer, path: Path) -> None:
    await writer.run(insert("a"))
    with closing(open_connection(path, readonly=True)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM t").fetchall()
        await writer.run(insert("b"))
        assert not await writer.checkpoint(patience_ms=0)
        reader.execute("ROLLBACK")
        assert await writer.checkpoint()
    assert path.with_name("a.db-wal").stat().st_size == 0
    timeout = await writer.run(lambda c: c.execute("PRAGMA busy_timeout").fetchone())
    assert timeout == (BUSY_TIMEOUT_MS,), "patience applies only to the checkpoint"


def rows_of(connection: Connection) -> int:
    """Count the rows; within a transaction this pins the WAL."""
    return int(connection.execute("SELECT COUNT(*) FROM t").fetchone()[0])


async def test_a_long_read_is_interrupted_before_the_wal_grows_too_long(
    writer: Writer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentctx.storage.file.readers.READ_TIMEOUT_S", 0.0)
    monkeypatch.setattr("agentctx.storage.file.writing_connection.MAX_FRAMES", 2 * DUE_FRAMES)
    readers = await Readers.open(path, 2)
    writer.recover_with(readers)
    reads = threading.Event()

    def endless(connection: Connection) -> None:
        rows_of(connection)
        reads.set()
        connection.execute(
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"
        )

    long = asyncio.create_task(readers.run(endless, timeout_s=60))
    assert await asyncio.to_thread(reads.wait, 10)
    longest = 0
    for number in range(12 * DUE_FRAMES // 250):
        await writer.run(insert(f"{number}" + 1_000_000 * "x"))
        longest = max(longest, path.with_name("a.db-wal").stat().st_size)
    with pytest.raises(StorageFailed, match="too much was written"):
        await long
    assert longest < 4 * DUE_FRAMES * 4096
    await readers.close()


class TestCopy:
    @pytest.fixture
    async def with_big_table(self, writer: Writer) -> Writer:
        await writer.run(lambda c: c.execute("CREATE TABLE big AS SELECT zeroblob(8000000)"))
        return writer

    async def test_contains_writes_committed_during_the_copy(
        self, with_big_table: Writer, path: Path, tmp_path: Path
    ) -> None:
        loop, steps = asyncio.get_running_loop(), 0

        class SavingStop(threading.Event):
            """Saves a row whenever the copy asks whether to stop."""

            def is_set(self) -> bool:
                nonlocal steps
                steps += 1
                asyncio.run_coroutine_threadsafe(with_big_table.run(insert(steps)), loop).result(10)
                return False

        stop = SavingStop()
        await with_big_table.copy(
            lambda c: copy_pages(c, tmp_path / "b.db", pace=CopyPace(stop)), threading.Event()
        )
        assert steps > 10
        assert stored(tmp_path / "b.db.partial") >= set(range(1, steps))
        assert path.with_name("a.db-wal").stat().st_size < 10_000_000

    async def test_keeps_no_snapshot_between_steps(self, with_big_table: Writer, tmp_path: Path) -> None:
        """Otherwise the WAL could not be emptied, and deleted text would stay on disk."""
        emptied = []
        loop = asyncio.get_running_loop()

        class CheckpointingStop(threading.Event):
            def is_set(self) -> bool:
                emptied.append(asyncio.run_coroutine_threadsafe(with_big_table.checkpoint(), loop).result(10))
                return False

        await with_big_table.copy(
            lambda c: copy_pages(c, tmp_path / "b.db", pace=CopyPace(CheckpointingStop())), threading.Event()
        )
        assert all(emptied)
        assert len(emptied) > 10

    async def test_a_second_copy_or_close_is_refused_meanwhile(
        self, writer: Writer, path: Path, tmp_path: Path
    ) -> None:
        begun, stop = threading.Event(), threading.Event()

        def copy(_: Connection) -> None:
            begun.set()
            assert stop.wait(10)

        first = asyncio.create_task(writer.copy(copy, stop))
        await asyncio.to_thread(begun.wait, 10)
        with pytest.raises(StorageFailed, match="already being copied"):
            await writer.copy(copy, threading.Event())
        with pytest.raises(StorageFailed, match="cannot be closed"):
            await writer.while_closed(lambda _: None, patience_ms=0)
        stop.set()
        await first
        await writer.while_closed(lambda _: None, patience_ms=0)

    @pytest.mark.parametrize("ends", ["cancelled", "closed"])
    async def test_ends_before_its_caller_returns(self, path: Path, tmp_path: Path, ends: str) -> None:
        writer = await Writer.open(path)
        await writer.run(lambda c: c.execute("CREATE TABLE t (x UNIQUE)"))
        begun, stop, ended = threading.Event(), threading.Event(), threading.Event()

        def copy(connection: Connection) -> None:
            begun.set()
            assert stop.wait(10)
            connection.execute("SELECT 1")  # the connection is still open
            ended.set()
            raise StorageClosed("The copy was stopped.")

        copying = asyncio.create_task(writer.copy(copy, stop))
        await asyncio.to_thread(begun.wait, 10)
        if ends == "closed":
            await writer.close()
        else:
            copying.cancel()
        with pytest.raises(StorageClosed if ends == "closed" else asyncio.CancelledError):
            await copying
        assert ended.is_set()
        await writer.close()
        with pytest.raises(StorageClosed):
            await writer.copy(copy, stop)
