"""Remains of moved and deleted rows are wiped; everything else stays."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agentctx.errors import StorageClosed, StorageFailed
from agentctx.storage.file import wipe
from agentctx.storage.file.copy import copy_pages, file_digest, keep_copy
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.file.readers import Readers
from agentctx.storage.file.wipe import WipeResult, wipe_gaps
from agentctx.storage.file.writer import Writer
from tests.amount import some


def write_and_delete(path: Path, seed: int) -> list[str]:
    """Insert rows of many sizes in random order, then delete half; return the deleted texts."""
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


def count_remains(path: Path, texts: list[str]) -> int:
    content = path.read_bytes()
    return sum(text.encode() in content for text in texts)


def rows_of(path: Path) -> list[tuple[str, str]]:
    with closing(open_connection(path, readonly=True)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return connection.execute("SELECT * FROM rows").fetchall()


@pytest.mark.parametrize("seed", some(range(3), 1))
def test_remains_of_deleted_rows_are_wiped(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "test.db"
    texts = write_and_delete(path, seed)
    rows = rows_of(path)
    assert count_remains(path, texts) > 0, "SQLite now wipes them itself"
    assert wipe_gaps(path).leftovers > 0
    assert count_remains(path, texts) == 0
    assert rows_of(path) == rows
    assert wipe_gaps(path) == WipeResult(0, None)


def test_wiping_page_by_page_equals_wiping_in_one_go(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    texts = write_and_delete(path, 1)
    page: int | None = 1
    while page is not None:
        page = wipe_gaps(path, first=page, pages=1).next_page
    assert count_remains(path, texts) == 0


def test_pointer_map_pages_are_recognised() -> None:
    assert [number for number in range(2_000) if wipe._is_map(number, 4096, 4096)] == [2, 822, 1642]


def test_an_open_database_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "test.db"
    write_and_delete(path, 1)

    def locked(_descriptor: int, *_: int) -> None:
        raise BlockingIOError

    monkeypatch.setattr("fcntl.lockf", locked)
    with pytest.raises(StorageFailed, match="Another program"):
        wipe_gaps(path)


def test_a_kept_backup_has_no_trace_of_deleted_rows(tmp_path: Path) -> None:
    path, target = tmp_path / "test.db", tmp_path / "backup.db"
    texts = write_and_delete(path, 1)
    with closing(open_connection(path)) as source:
        copy_pages(source, target)
    assert count_remains(target.with_name("backup.db.partial"), texts) > 0
    copied = keep_copy(target)
    assert count_remains(target, texts) == 0
    assert copied.digest == file_digest(target)
    assert rows_of(target) == rows_of(path)


async def test_reads_and_writes_wait_while_the_database_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    writer = await Writer.open(path)
    readers = None
    try:
        await writer.run(_executes("CREATE TABLE rows (text TEXT)"))
        readers = await Readers.open(path, 2)
        writer.recover_with(readers)

        def has_wal(closed: Path) -> bool:
            return closed.with_name("test.db-wal").exists()

        assert not await writer.while_closed(has_wal, patience_ms=250)
        await writer.run(_executes("INSERT INTO rows VALUES ('a')"))
        assert await readers.run(lambda conn: conn.execute("SELECT text FROM rows").fetchall()) == [("a",)]
        with pytest.raises(ZeroDivisionError):
            await writer.while_closed(lambda _: 1 // 0, patience_ms=250)
        await writer.run(_executes("INSERT INTO rows VALUES ('b')"))
    finally:
        if readers is not None:
            await readers.close()
        await writer.close()


async def test_writes_are_refused_when_the_database_cannot_be_reopened(tmp_path: Path) -> None:
    """The folder may have been removed meanwhile, or the disk may fail."""
    folder = tmp_path / "data"
    folder.mkdir()
    writer = await Writer.open(folder / "test.db")
    await writer.run(_executes("CREATE TABLE rows (text TEXT)"))
    may_continue = threading.Event()

    def move_folder(path: Path) -> None:
        assert may_continue.wait(10)
        path.parent.rename(tmp_path / "elsewhere")

    losing = asyncio.create_task(writer.while_closed(move_folder, patience_ms=250))
    waiting = asyncio.create_task(writer.run(_executes("INSERT INTO rows VALUES ('a')")))
    await asyncio.sleep(0)
    may_continue.set()
    with pytest.raises(StorageFailed, match="Saving is stopped"):
        await waiting
    await writer.close()
    await losing
    assert rows_of(tmp_path / "elsewhere" / "test.db") == []


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
