from __future__ import annotations

import asyncio
import os
import resource
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentctx.errors import StorageClosed, StorageFailed
from agentctx.storage.file import recovery
from agentctx.storage.file.checkpoint import DUE_FRAMES, Mode, wal_state
from agentctx.storage.file.connection_thread import ConnectionThread
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.file.readers import Readers
from agentctx.storage.file.recovery import LONGEST_PAUSE_S, pause_s
from agentctx.storage.file.writer import Writer

FRAME = 4096 + 24


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
async def writer(path: Path) -> AsyncIterator[Writer]:
    writer = await Writer.open(path)
    await writer.run(lambda c: c.execute("CREATE TABLE t (x)"))
    yield writer
    await writer.close()


@pytest.fixture
async def readers(writer: Writer, path: Path) -> AsyncIterator[Readers]:
    readers = await Readers.open(path, 2)
    writer.recover_with(readers)
    yield readers
    await readers.close()


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """Make writes beyond `size` bytes of a file fail with EFBIG, which SQLite takes for a disk error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def wal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def size_of(path: Path) -> int:
    return path.stat().st_size


def insert(value: Any, size: int = 0) -> Any:
    return lambda c: c.execute("INSERT INTO t VALUES (?)", (f"{value}{'x' * size}",)) and None


def rows(connection: Connection) -> list[str]:
    return [x.rstrip("x") for (x,) in connection.execute("SELECT x FROM t ORDER BY rowid")]


async def until_sound(writer: Writer) -> None:
    """Wait until writes are accepted again."""
    for _ in range(6_000):
        if writer.fault is None:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(writer.fault)


async def fail_during_write(writer: Writer, path: Path) -> None:
    """Run a transaction that fails in the middle of its writes."""
    with limit_file_size(size_of(wal_of(path)) + 5 * FRAME), pytest.raises(StorageFailed, match="IOERR"):
        await writer.run(insert("refused", 100_000))


async def test_refuses_writes_but_continues_reading_while_the_disk_fails(
    writer: Writer, readers: Readers, path: Path
) -> None:
    await writer.run(insert("a"))
    with limit_file_size(size_of(wal_of(path)) + 5 * FRAME):
        with pytest.raises(StorageFailed):
            await writer.run(insert("refused", 100_000))
        # This would fit, but the disk is no longer trusted.
        with pytest.raises(StorageFailed, match="Saving is stopped") as small:
            await writer.run(insert("small"))
        with pytest.raises(StorageFailed, match="Saving is stopped"):
            await writer.checkpoint()
        assert small.value.hint
        assert await readers.run(rows) == ["a"]


async def test_resumes_with_all_acknowledged_writes(writer: Writer, readers: Readers, path: Path) -> None:
    await writer.run(insert("a"))
    await fail_during_write(writer, path)
    await until_sound(writer)
    await writer.run(insert("b"))
    assert writer.fault is None
    assert await readers.run(rows) == ["a", "b"]


async def test_a_long_read_is_interrupted_so_that_writes_resume(
    writer: Writer, readers: Readers, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "paused", partial(readers.paused, 0.05))
    await writer.run(insert("a"))
    stop, both = threading.Event(), threading.Barrier(3)

    def endless(connection: Connection) -> None:
        both.wait(10)
        connection.execute(
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"
        )

    def copy(_: Connection) -> None:
        both.wait(10)
        stop.wait(30)
        raise StorageClosed("The copy was stopped.")

    long = asyncio.create_task(readers.run(endless, timeout_s=60))
    backup = asyncio.create_task(writer.copy(copy, stop))
    await asyncio.to_thread(both.wait, 10)
    await fail_during_write(writer, path)
    await until_sound(writer)
    with pytest.raises(StorageFailed, match="was interrupted"):
        await long
    with pytest.raises(StorageFailed, match="was stopped"):
        await backup
    assert await writer.run(insert("b")) is None
    assert await readers.run(rows) == ["a", "b"]


async def test_the_whole_group_is_refused_without_individual_retries(
    writer: Writer, readers: Readers, path: Path
) -> None:
    with limit_file_size(size_of(wal_of(path)) + 5 * FRAME):
        calls = [writer.run(insert(n, 40_000)) for n in range(6)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, StorageFailed) for answer in answers)
    await until_sound(writer)
    assert await readers.run(rows) == []


async def test_a_failed_checkpoint_stops_writing_too(writer: Writer, readers: Readers, path: Path) -> None:
    for n in range(20):
        await writer.run(insert(n, 4_000))
    with limit_file_size(size_of(path) + 4096), pytest.raises(StorageFailed):
        await writer.checkpoint()
    assert writer.fault is not None
    await until_sound(writer)
    assert await readers.run(rows) == [str(n) for n in range(20)]
    assert size_of(wal_of(path)) == 0


async def test_a_write_queued_behind_a_failing_checkpoint_is_refused(
    writer: Writer, readers: Readers, path: Path
) -> None:
    for n in range(20):
        await writer.run(insert(n, 4_000))
    with limit_file_size(size_of(path) + 4096):
        tidying = asyncio.create_task(writer.checkpoint())
        saving = asyncio.create_task(writer.run(insert("behind")))
        await asyncio.wait([tidying, saving])
    assert isinstance(tidying.exception(), StorageFailed)
    assert isinstance(saving.exception(), StorageFailed)
    await until_sound(writer)
    assert "behind" not in await readers.run(rows)


async def test_a_wal_that_a_failed_attempt_removed_is_not_a_loss(
    writer: Writer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing more can be opened, the last connection that closes removes the WAL."""
    await writer.run(insert("a"))
    attempts: list[Path] = []
    require_checkpoint = recovery.require_checkpoint

    def fail_once(connection: Connection, mode: Mode = "TRUNCATE") -> None:
        if mode == "TRUNCATE" and not attempts:
            attempts.append(path)
            raise StorageFailed("it fails again")
        require_checkpoint(connection, mode)

    async def close(thread: ConnectionThread, _: Path) -> None:
        await thread.close()
        attempts.append(wal_of(path))
        assert not wal_of(path).exists()

    monkeypatch.setattr(recovery, "require_checkpoint", fail_once)
    monkeypatch.setattr(recovery, "close_keeping_wal", close)
    await fail_during_write(writer, path)
    await until_sound(writer)
    assert attempts == [path, wal_of(path)]
    await writer.run(insert("b"))
    with closing(open_connection(path, readonly=True)) as connection:
        assert rows(connection) == ["a", "b"]


async def test_keeps_refusing_when_the_disk_has_lost_acknowledged_writes(
    writer: Writer, readers: Readers, path: Path
) -> None:
    await writer.run(insert("a"))
    await writer.run(insert("b"))
    with limit_file_size(1):
        with pytest.raises(StorageFailed):
            await writer.run(insert("refused"))
        os.truncate(wal_of(path), size_of(wal_of(path)) - FRAME)
    while "lost transactions" not in (writer.fault.message if writer.fault else ""):
        with pytest.raises(StorageFailed):
            await writer.run(insert("c"))
        await asyncio.sleep(0)
    assert await readers.run(rows) == ["a"]


async def test_closing_during_a_fault_keeps_all_acknowledged_writes(
    writer: Writer, readers: Readers, path: Path
) -> None:
    await writer.run(insert("a"))
    with limit_file_size(1):
        with pytest.raises(StorageFailed):
            await writer.run(insert("refused"))
        await readers.close()
        await writer.close()
    with closing(open_connection(path)) as connection:
        assert rows(connection) == ["a"]


async def test_a_long_wal_is_checkpointed(writer: Writer, path: Path) -> None:
    await writer.run(insert("a", 4096 * (DUE_FRAMES + 10)))
    await writer.run(insert("b"))  # comes after the checkpoint and restarts the WAL
    with closing(open_connection(path, readonly=True)) as connection:
        connection.execute("SELECT 1 FROM t").fetchone()
        assert wal_state(connection).frames < DUE_FRAMES


def test_pauses_grow_up_to_a_limit() -> None:
    pauses = [pause_s(n) for n in range(100)]
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[-1] == LONGEST_PAUSE_S
