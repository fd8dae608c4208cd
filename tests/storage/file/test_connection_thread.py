from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

import aiosqlite
import pytest

from agentctx.errors import StorageClosed, StorageFailed
from agentctx.storage.file import connection_thread, driver
from agentctx.storage.file.connection_thread import ConnectionThread
from agentctx.storage.file.driver import Connection, open_connection

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"


def connection_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "_connection_worker_thread" in thread.name]


@pytest.fixture
def no_thread_leaks() -> Iterator[None]:
    before = set(connection_threads())
    yield
    for thread in set(connection_threads()) - before:
        thread.join(timeout=5)
        assert not thread.is_alive()


@pytest.mark.usefixtures("no_thread_leaks")
class TestConnectionThread:
    async def test_runs_functions_in_one_separate_thread(self, tmp_path: Path) -> None:
        thread = await ConnectionThread.open(tmp_path / "a.db")
        idents = {await thread.run(lambda _: threading.get_ident()) for _ in range(3)}
        await thread.close()
        assert len(idents) == 1
        assert threading.get_ident() not in idents

    async def test_a_cancelled_caller_leaves_the_connection_usable(self, tmp_path: Path) -> None:
        thread = await ConnectionThread.open(tmp_path / "a.db")
        started, may_continue = threading.Event(), threading.Event()

        def slow(connection: Connection) -> None:
            connection.execute("BEGIN")
            started.set()
            may_continue.wait(5)
            connection.execute("CREATE TABLE t (x)")
            connection.execute("COMMIT")

        caller = asyncio.create_task(thread.run(slow))
        await asyncio.to_thread(started.wait, 5)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        may_continue.set()
        assert await thread.run(lambda c: (c.in_transaction, c.execute("SELECT * FROM t").fetchall())) == (
            False,
            [],
        )
        await thread.close()

    async def test_only_driver_errors_are_translated(self, tmp_path: Path) -> None:
        thread = await ConnectionThread.open(tmp_path / "a.db")
        with pytest.raises(StorageFailed) as caught:
            await thread.run(lambda c: c.execute("SELECT * FROM missing"))
        assert isinstance(caught.value.__cause__, driver.OperationalError)
        with pytest.raises(ZeroDivisionError):
            await thread.run(lambda _: 1 / 0)
        await thread.close()

    async def test_stop_iteration_reaches_the_caller(self, tmp_path: Path) -> None:
        thread = await ConnectionThread.open(tmp_path / "a.db")
        with pytest.raises(RuntimeError):
            async with asyncio.timeout(5):
                await thread.run(lambda c: next(c.execute("SELECT 1 WHERE 0")))
        await thread.close()

    async def test_interrupt_stops_the_running_statement(self, tmp_path: Path) -> None:
        thread = await ConnectionThread.open(tmp_path / "a.db")
        caller = asyncio.create_task(thread.run(lambda c: c.execute(ENDLESS).fetchall()))
        while not caller.done():
            thread.interrupt()
            await asyncio.wait([caller], timeout=0.01)
        with pytest.raises(StorageFailed):
            caller.result()
        assert await thread.run(lambda c: c.execute("SELECT 1").fetchone()) == (1,)
        await thread.close()

    async def test_close_is_idempotent_and_refuses_later_calls(self, tmp_path: Path) -> None:
        thread = await ConnectionThread.open(tmp_path / "a.db")
        await asyncio.gather(thread.close(), thread.close())
        await thread.close()
        thread.interrupt()
        with pytest.raises(StorageClosed):
            await thread.run(lambda _: None)

    async def test_close_finishes_pending_work_even_when_cancelled(self, tmp_path: Path) -> None:
        thread = await ConnectionThread.open(tmp_path / "a.db")
        may_continue = threading.Event()
        running = asyncio.create_task(thread.run(lambda _: may_continue.wait(5)))
        closing_task = asyncio.create_task(thread.close())
        await asyncio.sleep(0)
        closing_task.cancel()
        await asyncio.sleep(0)
        assert not closing_task.done()
        may_continue.set()
        with pytest.raises(asyncio.CancelledError):
            await closing_task
        assert await running
        assert os.listdir(tmp_path) == ["a.db"]  # noqa: PTH208 (no WAL is left, so it was closed)

    async def test_opening_a_missing_file_fails(self, tmp_path: Path) -> None:
        with pytest.raises(StorageFailed):
            await ConnectionThread.open(tmp_path / "missing.db", readonly=True)

    @pytest.mark.parametrize("cancel_when", ["before it began", "while it ran", "when it was done"])
    async def test_a_cancelled_opening_closes_the_connection(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cancel_when: str
    ) -> None:
        began, may_continue, ended = threading.Event(), threading.Event(), threading.Event()
        connections: list[Connection] = []

        def open_slowly(path: Path, *, readonly: bool) -> Connection:
            began.set()
            may_continue.wait(5)
            connections.append(open_connection(path, readonly=readonly))
            ended.set()
            return connections[-1]

        monkeypatch.setattr(connection_thread, "open_connection", open_slowly)
        opening = asyncio.create_task(ConnectionThread.open(tmp_path / "a.db"))
        if cancel_when != "before it began":
            assert await asyncio.to_thread(began.wait, 5)
        if cancel_when == "when it was done":
            may_continue.set()
            assert ended.wait(5)  # blocks the loop, so that the result is delivered later
        opening.cancel()
        await asyncio.sleep(0)
        may_continue.set()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert len(connections) == (cancel_when != "before it began")
        for connection in connections:
            with pytest.raises(Exception, match="closed database"):
                connection.execute("SELECT 1")


async def test_aiosqlite_has_the_queue_that_submit_uses() -> None:
    """Fails first when another release changes the one private part that is used."""
    bridge = aiosqlite.Connection(ExitStack, 1)  # type: ignore[arg-type]
    await bridge
    said = f"aiosqlite {aiosqlite.__version__} has another `Connection._tx`, see `ConnectionThread.submit`"
    assert isinstance(getattr(bridge, "_tx", None), SimpleQueue), said
    result = asyncio.get_running_loop().create_future()
    bridge._tx.put_nowait((result, lambda: 3))
    await asyncio.wait([result], timeout=5)
    await bridge.close()
    assert result.done(), said
    assert result.result() == 3, said


class TestFinish:
    async def test_returns_the_result_or_raises_the_error(self) -> None:
        done = asyncio.get_running_loop().create_future()
        done.set_result(3)
        assert await connection_thread.finish(done) == 3
        failed = asyncio.get_running_loop().create_future()
        failed.set_exception(ValueError("why"))
        with pytest.raises(ValueError, match="why"):
            await connection_thread.finish(failed)

    async def test_a_cancelled_caller_still_waits_for_the_end(self) -> None:
        work = asyncio.get_running_loop().create_future()
        caller = asyncio.create_task(connection_thread.finish(work))
        for _ in range(3):
            await asyncio.sleep(0)
            caller.cancel()
        await asyncio.sleep(0)
        assert not caller.done()
        work.set_exception(ValueError())
        with pytest.raises(asyncio.CancelledError):
            await caller
