from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agentctx.errors import DatabaseMissing, StorageFailed
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.file.readers import Readers
from agentctx.storage.file.writer import Writer

LIMIT_S = 30.0
MAX_POLLS = 1_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "a.db"


@pytest.fixture
async def writer(path: Path) -> AsyncIterator[Writer]:
    writer = await Writer.open(path)
    await writer.run(create_table)
    yield writer
    await writer.close()


@pytest.fixture
async def readers(writer: Writer, path: Path) -> AsyncIterator[Readers]:
    readers = await Readers.open(path, 2)
    writer.recover_with(readers)
    yield readers
    await readers.close()


def create_table(connection: Connection) -> None:
    connection.execute("CREATE TABLE t (x)")


def insert(value: str) -> Callable[[Connection], None]:
    def insert_value(connection: Connection) -> None:
        connection.execute("INSERT INTO t VALUES (?)", (value,))

    return insert_value


def rows(connection: Connection) -> list[str]:
    return [x for (x,) in connection.execute("SELECT x FROM t ORDER BY rowid")]


def stored(path: Path) -> list[str]:
    with closing(open_connection(path, readonly=True)) as connection:
        return rows(connection)


async def wait_for_fault(writer: Writer, match: str) -> StorageFailed:
    """Wait until writes are refused for a reason that contains `match`."""
    for _ in range(MAX_POLLS):
        if writer.fault is not None and match in writer.fault.message:
            return writer.fault
        await asyncio.sleep(LIMIT_S / MAX_POLLS)
    raise AssertionError(writer.fault)


async def wait_for_copy(writer: Writer, path: Path) -> Path:
    """Wait until the database is given up; return its only copy."""
    fault = await wait_for_fault(writer, "All that was saved is in")
    assert isinstance(fault, DatabaseMissing)
    (copy,) = copies(path)
    assert str(copy) in fault.message
    assert f"agentctx restore {copy} --data-dir {path.parent}" in fault.hint
    return copy


def copies(path: Path) -> list[Path]:
    return list(path.parent.glob(f"{path.name}.rescued-*"))


async def save_two(writer: Writer) -> None:
    for value in ("in the database", "in the WAL"):
        await writer.run(insert(value))
        if value == "in the database":
            assert await writer.checkpoint()


ACKNOWLEDGED = ["in the database", "in the WAL"]


def unlink(path: Path) -> None:
    path.unlink()


def replace_with_empty_file(path: Path) -> None:
    path.unlink()
    path.touch()


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def read_bytes(path: Path) -> bytes:
    return path.read_bytes()


def put_another_database(path: Path) -> bytes:
    """Rename another database over this one; return its bytes."""
    new = path.with_name("new.db")
    with closing(open_connection(new)) as other:
        other.execute("CREATE TABLE t (x)")
        other.execute("INSERT INTO t VALUES ('of the other')")
        other.execute("PRAGMA journal_mode=DELETE")
    content = new.read_bytes()
    new.replace(path)
    return content


def remove_everything(path: Path) -> None:
    shutil.rmtree(path.parent)


def remove_database_and_wal(path: Path) -> None:
    path.unlink()
    path.with_name(f"{path.name}-wal").unlink()


def remove_wal(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def remove_shm(path: Path) -> None:
    path.with_name(f"{path.name}-shm").unlink()


def replace_wal(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()
    path.with_name(f"{path.name}-wal").write_bytes(bytes(1_000))


@pytest.mark.parametrize(
    "lose",
    [
        unlink,
        remove_everything,
        remove_database_and_wal,
        remove_wal,
        remove_shm,
        replace_wal,
        replace_with_empty_file,
        put_another_database,
        move,
        move_folder,
    ],
)
async def test_files_that_are_gone_end_saving_and_are_copied_once(
    writer: Writer, readers: Readers, path: Path, lose: Callable[[Path], Any]
) -> None:
    await save_two(writer)
    lose(path)
    await writer.inspect_files()
    copy = await wait_for_copy(writer, path)
    with pytest.raises(StorageFailed, match="Saving is stopped"):
        await writer.run(insert("refused"))
    assert await readers.run(rows) == ACKNOWLEDGED
    await writer.inspect_files()
    await readers.close()
    await writer.close()
    assert copies(path) == [copy]
    assert stored(copy) == ACKNOWLEDGED


async def test_a_save_notices_a_removed_database_by_itself(writer: Writer, path: Path) -> None:
    await save_two(writer)
    unlink(path)
    with pytest.raises(StorageFailed, match="removed") as refused:
        await writer.run(insert("refused"))
    assert refused.value.hint
    assert stored(await wait_for_copy(writer, path)) == ACKNOWLEDGED


async def test_wiping_does_not_close_a_removed_database(writer: Writer, path: Path) -> None:
    await save_two(writer)
    unlink(path)
    with pytest.raises(StorageFailed, match="removed"):
        await writer.while_closed(lambda _: None, patience_ms=1_000)
    assert stored(await wait_for_copy(writer, path)) == ACKNOWLEDGED


async def test_a_database_removed_while_closed_is_copied(writer: Writer, path: Path) -> None:
    await save_two(writer)
    await writer.while_closed(unlink, patience_ms=1_000)
    assert stored(await wait_for_copy(writer, path)) == ACKNOWLEDGED


async def test_a_database_removed_just_before_close_is_copied(writer: Writer, path: Path) -> None:
    await save_two(writer)
    remove_everything(path)
    await writer.close()
    (copy,) = copies(path)
    assert stored(copy) == ACKNOWLEDGED


async def test_a_copy_that_is_removed_too_is_written_again(writer: Writer, path: Path) -> None:
    """`rm -r` of a large folder may go on after the first copy."""
    await save_two(writer)
    remove_everything(path)
    await writer.inspect_files()
    await wait_for_copy(writer, path)
    remove_everything(path)
    await writer.close()
    (copy,) = copies(path)
    assert stored(copy) == ACKNOWLEDGED


async def test_a_foreign_file_in_its_place_is_left_alone_and_gets_no_wal_of_ours(
    writer: Writer, readers: Readers, path: Path
) -> None:
    await save_two(writer)
    content = put_another_database(path)
    await writer.inspect_files()
    copy = await wait_for_copy(writer, path)
    await readers.close()
    await writer.close()
    assert read_bytes(path) == content
    assert {each.name for each in path.parent.iterdir()} == {path.name, copy.name}
    assert stored(path) == ["of the other"]


async def test_a_wal_that_is_not_ours_is_left_with_its_database(writer: Writer, path: Path) -> None:
    await save_two(writer)
    put_another_database(path)
    replace_wal(path)
    await writer.inspect_files()
    await wait_for_copy(writer, path)
    await writer.close()
    assert read_bytes(path.with_name(f"{path.name}-wal")) == bytes(1_000)


async def test_a_copy_that_cannot_be_written_is_tried_again(writer: Writer, path: Path) -> None:
    await save_two(writer)
    remove_everything(path)
    path.parent.touch()  # a folder cannot be created where a file is
    await writer.inspect_files()
    fault = await wait_for_fault(writer, "cannot be written")
    assert "keeps trying" in fault.hint
    unlink(path.parent)
    assert stored(await wait_for_copy(writer, path)) == ACKNOWLEDGED


async def test_a_copy_that_fails_at_the_end_is_logged(writer: Writer, path: Path) -> None:
    await save_two(writer)
    remove_everything(path)
    path.parent.touch()
    with capture_logs() as logged:
        await writer.close()
    assert [line["event"] for line in logged] == ["database_not_rescued"]
