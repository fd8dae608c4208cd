"""Tables of vectors are packed while they are in use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from agentctx.storage.file import vec0
from agentctx.storage.file.driver import Connection
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.proofs import SlotCount
from agentctx.storage.records import Space
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.vectors.slots import FilePages, file_pages
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.vectors import Vectors
from agentctx_testing.conformance.vector_stores import random_vectors
from tests.doctor.damage import damaged

DIMENSION = 512
COUNT = 1_000


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    storage = await SqliteStorage.open(tmp_path / "agentctx.db")
    yield storage
    await storage.close()


class ChurningTable:
    """A table of vectors in one namespace, some of which are replaced again and again."""

    def __init__(self, storage: SqliteStorage, space: Space) -> None:
        self.table = SpaceIndex(space.id).table
        self._storage = storage
        self._stored: list[int] = []
        self._next = 1
        self._rng = np.random.default_rng(1)

    @classmethod
    async def filled(cls, storage: SqliteStorage) -> ChurningTable:
        space = await storage.spaces.open({"model": "m"})
        churned = cls(storage, await storage.spaces.prepare(space.id, unit_vectors(1)[0]))
        await churned.insert(COUNT)
        return churned

    async def insert(self, count: int) -> None:
        ids = range(self._next, self._next + count)
        rows = [
            (number, "default", "knowledge", "", vector.tobytes())
            for number, vector in zip(ids, unit_vectors(count), strict=True)
        ]
        await self._storage.db.writer.run(lambda conn: vec0.insert_vectors(conn, self.table, rows))
        self._stored += ids
        self._next += count

    async def delete(self, count: int) -> None:
        self._rng.shuffle(self._stored)
        gone, self._stored = self._stored[:count], self._stored[count:]
        await self._storage.db.writer.run(lambda conn: vec0.delete_vectors(conn, self.table, gone))

    async def has_expected_ids(self) -> bool:
        """Return whether exactly the expected vectors are stored."""
        found = await self._storage.db.readers.run(lambda conn: vec0.stored_ids(conn, self.table))
        return found == sorted(self._stored)


def unit_vectors(count: int) -> Vectors:
    made: Vectors = random_vectors(count, DIMENSION)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made


async def file_size(storage: SqliteStorage) -> int:
    await storage.db.writer.checkpoint()
    return (await storage.stats()).bytes


async def test_replacing_every_vector_three_times_hardly_grows_the_file(storage: SqliteStorage) -> None:
    churned = await ChurningTable.filled(storage)
    fresh = await file_size(storage)
    for _ in range(15):
        await churned.delete(COUNT // 5)
        await churned.insert(COUNT // 5)
        while await storage.slots.step():
            pass
    count = await storage.slots.count()
    assert count.used == COUNT
    assert count.used / (count.used + count.dead + count.spare) >= 0.7
    assert await file_size(storage) <= 1.5 * fresh
    assert await churned.has_expected_ids()
    assert await storage.upkeep.check_vectors() == []
    assert await storage.upkeep.check_integrity() == []


async def test_a_few_dead_slots_stay_until_pack_is_called(storage: SqliteStorage) -> None:
    churned = await ChurningTable.filled(storage)
    await churned.insert(COUNT)
    await churned.delete(COUNT * 2 // 5)
    before = await storage.slots.count()
    assert 0 < before.dead_slot_ratio < 0.25
    assert not await storage.slots.step()
    assert await storage.slots.count() == before
    assert await storage.slots.pack() > 0
    after = await storage.slots.count()
    assert (after.used, after.dead) == (before.used, 0)
    assert await storage.slots.pack() == 0
    assert await churned.has_expected_ids()


async def test_vectors_saved_between_steps_stay(storage: SqliteStorage) -> None:
    churned = await ChurningTable.filled(storage)
    await churned.delete(COUNT * 3 // 4)
    while await storage.slots.step():
        await churned.insert(3)
        await churned.delete(2)
    assert await churned.has_expected_ids()
    assert await storage.upkeep.check_vectors() == []


async def test_the_file_shrinks_when_most_vectors_are_deleted(storage: SqliteStorage) -> None:
    churned = await ChurningTable.filled(storage)
    await churned.insert(4 * COUNT)
    full = await file_size(storage)
    await churned.delete(4 * COUNT)
    while await storage.slots.step():
        pass
    assert await file_size(storage) < full / 2
    assert await storage.upkeep.check_integrity() == []
    assert await churned.has_expected_ids()


async def test_a_damaged_table_is_left_alone(storage: SqliteStorage, tmp_path: Path) -> None:
    churned = await ChurningTable.filled(storage)
    await churned.delete(COUNT * 3 // 4)

    def corrupt(conn: Connection) -> None:
        conn.execute(f"UPDATE {churned.table}_chunks SET rowids = x'00'")  # noqa: S608 - constant

    damaged(tmp_path / DATABASE_NAME, corrupt)
    assert await storage.slots.count() == SlotCount()
    assert await storage.slots.pack() == 0


async def test_without_vectors_there_is_nothing_to_do(storage: SqliteStorage) -> None:
    assert await storage.slots.count() == SlotCount()
    assert not await storage.slots.step()


@pytest.mark.parametrize(
    ("pages", "too_many"), [((1_000, 100), False), ((2_560, 256), False), ((2_559, 256), True)]
)
def test_free_pages_are_returned_when_there_are_too_many(pages: tuple[int, int], too_many: bool) -> None:
    assert FilePages(*pages).has_too_many_free is too_many


async def test_file_pages_are_counted(storage: SqliteStorage) -> None:
    pages = await storage.db.readers.run(file_pages)
    assert 0 <= pages.free < pages.all
