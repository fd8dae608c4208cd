"""What SQLite leaves of moved and deleted rows is wiped, and nothing else."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agentctx.errors import StorageClosed, StorageFailed
from agentctx.sqlite import wipe
from agentctx.sqlite.copy import copy_pages, file_digest, keep_copy
from agentctx.sqlite.driver import Connection, open_connection
from agentctx.sqlite.readers import Readers
from agentctx.sqlite.wipe import Wiped, wipe_gaps
from agentctx.sqlite.writer import Writer
from tests.amount import some


def churned(path: Path, seed: int) -> list[str]:
    """Rows of many sizes, inserted in the middle of others, so that they move; half are deleted: those."""
    rng = random.Random(seed)
    texts = {number: f"canary{rng.randrange(10**12):012d}" * rng.randint(1, 30) for number in range(1_500)}
    order = list(texts)
    rng.shuffle(order)
    gone = order[: len(order) // 2]
    with closing(open_connection(path)) as connection:
        connection.execute("CREATE TABLE rows (key TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID")
        connection.execute("CREATE INDEX texts ON rows (text)")
        for number in order:
            connection.execute("INSERT INTO rows VALUES (?, ?)", (f"{number:05d}", texts[number]))
        connection.executemany("DELETE FROM rows WHERE key = ?", [(f"{number:05d}",) for number in gone])
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return [texts[number][:18] for number in gone]


def left(path: Path, texts: list[str]) -> int:
    content = path.read_bytes()
    return sum(text.encode() in content for text in texts)


def rows_of(path: Path) -> list[tuple[str, str]]:
    with closing(open_connection(path, readonly=True)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return connection.execute("SELECT * FROM rows").fetchall()


@pytest.mark.parametrize("seed", some(range(3), 1))
def test_deleted_rows_that_sqlite_leaves_on_its_pages_are_wiped(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "test.db"
    texts = churned(path, seed)
    rows = rows_of(path)
    assert left(path, texts) > 0, "SQLite has learnt to do it itself"
    assert wipe_gaps(path).leftovers > 0
    assert left(path, texts) == 0
    assert rows_of(path) == rows
    assert wipe_gaps(path) == Wiped(0, None)


def test_turns_wipe_as_much_as_one_go(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    texts = churned(path, 1)
    page: int | None = 1
    while page is not None:
        page = wipe_gaps(path, first=page, pages=1).next_page
    assert left(path, texts) == 0


def test_pages_of_the_map_of_pages_are_known() -> None:
    assert [number for number in range(2_000) if wipe._is_map(number, 4096, 4096)] == [2, 822, 1642]


def test_an_open_database_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "test.db"
    churned(path, 1)

    def locked(_descriptor: int, *_: int) -> None:
        raise BlockingIOError

    monkeypatch.setattr("fcntl.lockf", locked)
    with pytest.raises(StorageFailed, match="Another program"):
        wipe_gaps(path)


def test_a_backup_has_no_trace_of_what_was_deleted_before_it_was_kept(tmp_path: Path) -> None:
    path, target = tmp_path / "test.db", tmp_path / "backup.db"
    texts = churned(path, 1)
    with closing(open_connection(path)) as source:
        copy_pages(source, target)
    assert left(target.with_name("backup.db.partial"), texts) > 0
    copied = keep_copy(target)
    assert left(target, texts) == 0
    assert copied.digest == file_digest(target)
    assert rows_of(target) == rows_of(path)


async def test_reads_and_writes_wait_while_it_is_closed_and_continue_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    writer = await Writer.open(path)
    readers = None
    try:
        await writer.run(_run("CREATE TABLE rows (text TEXT)"))
        readers = await Readers.open(path, 2)
        writer.recover_with(readers)

        def look(closed: Path) -> bool:
            return closed.with_name("test.db-wal").exists()

        assert not await writer.while_closed(look, patience_ms=250)
        await writer.run(_run("INSERT INTO rows VALUES ('a')"))
        assert await readers.run(lambda conn: conn.execute("SELECT text FROM rows").fetchall()) == [("a",)]
        with pytest.raises(ZeroDivisionError):
            await writer.while_closed(lambda _: 1 // 0, patience_ms=250)
        await writer.run(_run("INSERT INTO rows VALUES ('b')"))
    finally:
        if readers is not None:
            await readers.close()
        await writer.close()


async def test_a_write_is_refused_when_the_database_does_not_open_again(tmp_path: Path) -> None:
    """The folder may be removed just then, or the disk fail."""
    folder = tmp_path / "data"
    folder.mkdir()
    writer = await Writer.open(folder / "test.db")
    await writer.run(_run("CREATE TABLE rows (text TEXT)"))
    may_go_on = threading.Event()

    def lose_folder(path: Path) -> None:
        assert may_go_on.wait(10)
        path.parent.rename(tmp_path / "elsewhere")

    losing = asyncio.create_task(writer.while_closed(lose_folder, patience_ms=250))
    waiting = asyncio.create_task(writer.run(_run("INSERT INTO rows VALUES ('a')")))
    await asyncio.sleep(0)
    may_go_on.set()
    with pytest.raises(StorageFailed, match="Saving is stopped until"):
        await waiting
    await writer.close()
    await losing
    assert rows_of(tmp_path / "elsewhere" / "test.db") == []


async def test_closing_ends_when_a_write_came_in_the_moment_of_the_fault(tmp_path: Path) -> None:
    writer = await Writer.open(tmp_path / "test.db")
    waiting = asyncio.create_task(writer.run(_run("SELECT 1")))
    await asyncio.sleep(0)  # it waits for its group now
    writer.fault = StorageFailed("gone")
    await writer.close()
    with pytest.raises(StorageClosed):
        await waiting


def _run(sql: str) -> Callable[[Connection], None]:
    def run(connection: Connection) -> None:
        connection.execute(sql)

    return run
