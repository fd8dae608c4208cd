"""Repairing a file with damaged pages: words and vectors are built again, for the rest it is left alone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from agentctx.errors import StorageCorrupt, StorageFull
from agentctx.storage.file.driver import open_connection
from agentctx.storage.records import SaveOutcome
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.upkeep import file_repair, integrity
from agentctx_testing.conformance.storage.repair import (
    assert_every_chunk_is_found,
    assert_healthy,
    embed_pending,
    filled,
)
from agentctx_testing.drafts import ManualClock, keyless

PAGE = 4_096
DERIVED = (
    "chunk_fts_data",
    "chunk_fts_config",
    "chunk_fts_docsize",
    "vec_1_chunks",
    "vec_1_rowids",
    "vec_1_vector_chunks00",
)
ONLY_IN_A_BACKUP = ("chunks", "jobs", "quarantine", "vector_checksums", "entries", "entries_live_id")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agentctx.db"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStorage]:
    storage = await SqliteStorage.open(path, clock=ManualClock())
    try:
        yield storage
    finally:
        await storage.close()


async def fill_database(path: Path) -> list[SaveOutcome]:
    async with opened(path) as storage:
        return await filled(storage)


def root_of(path: Path, name: str) -> int:
    with closing(open_connection(path, readonly=True)) as conn:
        row = conn.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
    return int(row[0])


def content_of(path: Path) -> bytes:
    return path.read_bytes()


def zero_pages(path: Path, pages: Iterable[int]) -> None:
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE)
            file.write(bytes(PAGE))


def swap_pages(path: Path, one: int, other: int) -> None:
    content = bytearray(path.read_bytes())
    first, second = (slice((page - 1) * PAGE, page * PAGE) for page in (one, other))
    content[first], content[second] = content[second], content[first]
    path.write_bytes(content)


@pytest.mark.parametrize("name", DERIVED)
async def test_derived_data_is_rebuilt(path: Path, name: str) -> None:
    saved = await fill_database(path)
    zero_pages(path, [root_of(path, name)])
    async with opened(path) as storage:
        assert await storage.upkeep.repair_file()
        jobs = (await storage.jobs.depth()).pending
        assert (jobs > 0) == name.startswith("vec_"), "what is sound is not embedded again"
        await embed_pending(storage)
        await assert_healthy(storage)
        await assert_every_chunk_is_found(storage, saved)
    assert sorted(os.listdir(path.parent)) == ["agentctx.db"]  # noqa: PTH208 - pathlib is no better in a coroutine


@pytest.mark.parametrize("name", ONLY_IN_A_BACKUP)
async def test_a_file_with_other_damage_is_left_as_it_is(path: Path, name: str) -> None:
    await fill_database(path)
    zero_pages(path, [root_of(path, name), root_of(path, "chunk_fts_data")])
    async with opened(path) as storage:
        table = "entries" if name.startswith("entries") else name
        with pytest.raises(StorageCorrupt, match=f"The table {table} is damaged"):
            await storage.upkeep.repair_file()
        before = content_of(path)
    with pytest.raises(StorageCorrupt):
        file_repair.rebuild_derived(path, now=1)
    assert content_of(path) == before
    assert not list(path.parent.glob(f"*{file_repair.ENDING}*"))


async def test_a_healthy_file_is_left_alone(path: Path) -> None:
    await fill_database(path)
    async with opened(path) as storage:
        assert not await storage.upkeep.repair_file()


async def test_an_index_that_disagrees_with_its_table_is_rebuilt_in_place(path: Path) -> None:
    saved = await fill_database(path)
    _change_key(path, root_of(path, "entries_live_id"), saved[1].id.encode())
    async with opened(path) as storage:
        with pytest.raises(StorageCorrupt):
            await storage.entries.get(saved[1].id)
        problems = await storage.upkeep.check_integrity()
        assert problems
        assert all(map(integrity.is_index_problem, problems))
        assert await storage.upkeep.repair_file()
        assert await storage.entries.get(saved[1].id) is not None
        await assert_healthy(storage)


def _change_key(path: Path, page: int, known: bytes) -> None:
    content = bytearray(content_of(path))
    place = slice((page - 1) * PAGE, page * PAGE)
    content[place] = content[place].replace(known, known[:-1] + (b"0" if known[-1:] != b"0" else b"1"))
    path.write_bytes(content)


async def test_a_damaged_index_never_makes_an_existing_entry_unknown(path: Path) -> None:
    saved = await fill_database(path)
    swap_pages(path, root_of(path, "entries_live_id"), root_of(path, "idempotency_entry"))
    async with opened(path) as storage:
        for outcome in saved:
            for reading in (
                storage.entries.get(outcome.id),
                storage.entries.namespace_of(outcome.id),
                storage.entries.delete(outcome.id),
            ):
                with pytest.raises(StorageCorrupt):
                    await reading


async def test_saves_and_reads_wait_for_the_repair(path: Path) -> None:
    saved = await fill_database(path)
    zero_pages(path, [root_of(path, "chunk_fts_data")])
    async with opened(path) as storage:
        repaired, later, found = await asyncio.gather(
            storage.upkeep.repair_file(), _save_during_repair(storage), storage.entries.get(saved[0].id)
        )
        assert repaired
        assert found is not None
        assert await storage.entries.get(later.id) is not None
        await embed_pending(storage)
        await assert_healthy(storage)


async def _save_during_repair(storage: SqliteStorage) -> SaveOutcome:
    while not storage.db.writer._in_use.locked():  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0)
    return await storage.entries.save(keyless("said meanwhile"), embed=True)


async def test_a_failed_repair_leaves_the_file_unchanged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill_database(path)
    zero_pages(path, [root_of(path, "vec_1_rowids")])
    before = content_of(path)

    def fail(*_: object) -> None:
        raise StorageFull("No space left for the database.")

    monkeypatch.setattr(file_repair, "_overwrite", fail)
    with pytest.raises(StorageFull):
        file_repair.rebuild_derived(path, now=1)
    assert content_of(path) == before
    assert [each.name for each in path.parent.iterdir() if file_repair.ENDING in each.name] == []


async def test_leftovers_of_a_killed_repair_are_removed_at_the_next_start(path: Path) -> None:
    await fill_database(path)
    for end in ("", "-wal"):
        path.with_name(path.name + file_repair.ENDING + end).write_bytes(b"a text of an entry")
    async with opened(path):
        assert not list(path.parent.glob(f"*{file_repair.ENDING}*"))
