from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agentctx.errors import StorageFailed
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


async def wait_until_sound(writer: Writer) -> None:
    async with asyncio.timeout(LIMIT_S):
        await writer.sound()


async def wait_for_fault(writer: Writer, match: str) -> StorageFailed:
    """Wait until writes are refused for a reason that contains `match`."""
    for _ in range(MAX_POLLS):
        if writer.fault is not None and match in writer.fault.message:
            return writer.fault
        await asyncio.sleep(LIMIT_S / MAX_POLLS)
    raise AssertionError(writer.fault)


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


def move(path: Path, to: Path) -> Path:
    return path.rename(to)


def exists(path: Path) -> bool:
    return path.exists()


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
    "remove",
    [
        unlink,
        remove_everything,
        remove_database_and_wal,
        remove_wal,
        remove_shm,
        replace_wal,
    ],
)
async def test_removed_files_are_restored_with_all_acknowledged_writes(
    writer: Writer, readers: Readers, path: Path, remove: Callable[[Path], Any]
) -> None:
    await save_two(writer)
    remove(path)
    await writer.inspect_files()
    await wait_until_sound(writer)
    await writer.run(insert("after"))
    assert await readers.run(rows) == [*ACKNOWLEDGED, "after"]
    await readers.close()
    await writer.close()
    assert stored(path) == [*ACKNOWLEDGED, "after"]


async def test_a_save_notices_a_removed_database_by_itself(writer: Writer, path: Path) -> None:
    await save_two(writer)
    unlink(path)
    with pytest.raises(StorageFailed, match="removed") as refused:
        await writer.run(insert("refused"))
    assert refused.value.hint
    await wait_until_sound(writer)
    await writer.close()
    assert stored(path) == ACKNOWLEDGED


async def test_wiping_does_not_close_a_removed_database(writer: Writer, path: Path) -> None:
    await save_two(writer)
    unlink(path)
    with pytest.raises(StorageFailed, match="removed"):
        await writer.while_closed(lambda _: None, patience_ms=1_000)
    await wait_until_sound(writer)
    await writer.close()
    assert stored(path) == ACKNOWLEDGED


async def test_a_database_removed_while_closed_is_restored(writer: Writer, path: Path) -> None:
    await save_two(writer)
    await writer.while_closed(unlink, patience_ms=1_000)
    await wait_until_sound(writer)
    await writer.run(insert("after"))
    await writer.close()
    assert stored(path) == [*ACKNOWLEDGED, "after"]


async def test_a_database_removed_just_before_close_is_written_out(writer: Writer, path: Path) -> None:
    await save_two(writer)
    remove_everything(path)
    await writer.close()
    assert stored(path) == ACKNOWLEDGED


async def test_a_foreign_file_in_its_place_is_left_alone_and_a_copy_is_saved_beside_it(
    writer: Writer, readers: Readers, path: Path
) -> None:
    await save_two(writer)
    content = put_another_database(path)
    await writer.inspect_files()
    fault = await wait_for_fault(writer, "saved as")
    (saved,) = path.parent.glob("*.rescued-*Z")
    assert saved.name in fault.message
    assert await readers.run(rows) == ACKNOWLEDGED
    with pytest.raises(StorageFailed):
        await writer.run(insert("refused"))
    await readers.close()
    await writer.close()
    assert read_bytes(path) == content
    assert {each.name for each in path.parent.iterdir()} == {path.name, saved.name}
    assert stored(saved) == ACKNOWLEDGED
    assert stored(path) == ["of the other"]


async def test_the_copy_is_renamed_into_place_once_the_path_is_free(writer: Writer, path: Path) -> None:
    await save_two(writer)
    replace_with_empty_file(path)
    await writer.inspect_files()
    await wait_for_fault(writer, "saved as")
    unlink(path)
    await wait_until_sound(writer)
    await writer.run(insert("after"))
    await writer.close()
    assert stored(path) == [*ACKNOWLEDGED, "after"]
    assert not list(path.parent.glob("*.rescued-*"))


async def test_saving_resumes_when_a_moved_folder_returns(
    writer: Writer, readers: Readers, path: Path
) -> None:
    await save_two(writer)
    elsewhere = path.parent.rename(path.parent.with_name("elsewhere"))
    await writer.inspect_files()
    await wait_for_fault(writer, str(elsewhere))
    assert writer.moved_to == elsewhere / path.name
    with pytest.raises(StorageFailed, match="moved"):
        await writer.run(insert("refused"))
    assert await readers.run(rows) == ACKNOWLEDGED
    assert not path.parent.exists()
    elsewhere.rename(path.parent)
    await wait_until_sound(writer)
    await writer.run(insert("after"))
    assert await readers.run(rows) == [*ACKNOWLEDGED, "after"]
    assert writer.moved_to is None


async def test_a_moved_database_does_not_need_its_wal(writer: Writer, path: Path) -> None:
    await save_two(writer)
    elsewhere = move(path, path.with_name("elsewhere.db"))
    await writer.inspect_files()
    await wait_for_fault(writer, "moved")
    await writer.close()
    assert not exists(path)
    assert stored(elsewhere) == ACKNOWLEDGED


async def test_a_failed_rescue_is_logged(writer: Writer, path: Path) -> None:
    await save_two(writer)
    remove_everything(path)
    path.parent.touch()  # a folder cannot be created where a file is
    await writer.inspect_files()
    await wait_for_fault(writer, "cannot be created")
    with capture_logs() as logged:
        await writer.close()
    assert [line["event"] for line in logged] == ["database_not_rescued"]


async def test_a_rescue_refused_by_the_disk_is_retried(
    writer: Writer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await save_two(writer)
    refused: list[Path] = []
    link = os.link

    def refuse_once(source: Path, target: Path) -> None:
        if not refused:
            refused.append(target)
            raise PermissionError(13, "Permission denied")
        link(source, target)

    monkeypatch.setattr(os, "link", refuse_once)
    unlink(path)
    await writer.inspect_files()
    await wait_until_sound(writer)
    await writer.close()
    assert refused == [path]
    assert stored(path) == ACKNOWLEDGED


async def test_a_wal_that_cannot_be_moved_aside_does_not_stop_the_writer(
    writer: Writer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await save_two(writer)
    replace_wal(path)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", refuse)
        await writer.inspect_files()
        await wait_for_fault(writer, "Cannot restore")
    await wait_until_sound(writer)
    await writer.close()
    assert stored(path) == ACKNOWLEDGED
