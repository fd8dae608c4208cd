"""A table of vectors that is half empty is packed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from agentctx.storage.file import vec0
from agentctx.storage.file.driver import Connection
from agentctx.storage.file.vec0 import BLOCK_SIZE
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.upkeep.rewrite import EVERY_MS, is_due
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.vectors import Vectors
from agentctx_testing.conformance.vector_stores import random_vectors
from agentctx_testing.drafts import keyless

COUNT = 4 * BLOCK_SIZE


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    storage = await SqliteStorage.open(tmp_path / "agentctx.db")
    yield storage
    await storage.close()


class StoredVectors:
    """The vectors of one namespace, some of which are replaced again and again."""

    def __init__(self, storage: SqliteStorage, index: SpaceIndex) -> None:
        self.index = index
        self.ids: list[int] = []
        self._storage = storage
        self._next = 1
        self._rng = np.random.default_rng(1)

    @classmethod
    async def filled(cls, storage: SqliteStorage) -> StoredVectors:
        space = await storage.spaces.open({"model": "m"})
        await storage.spaces.prepare(space.id, unit_vectors(1)[0])
        stored = cls(storage, SpaceIndex(space.id))
        await stored.insert(COUNT)
        return stored

    async def insert(self, count: int) -> None:
        ids = range(self._next, self._next + count)
        vectors = unit_vectors(count)
        rows = [(each, "default", "knowledge", "", vectors[each - self._next].tobytes()) for each in ids]
        await self._storage.db.write(self.index.insert, rows=rows)
        self.ids += ids
        self._next += count

    async def delete(self, count: int) -> None:
        self._rng.shuffle(self.ids)
        gone, self.ids = self.ids[:count], self.ids[count:]
        await self._storage.db.write(self.index.delete, chunks=gone)

    async def blocks(self) -> int:
        return await self._storage.db.read(vec0.count_blocks, table=self.index.table)

    async def contents(self) -> dict[int, tuple[object, ...]]:
        def rows(conn: Connection) -> dict[int, tuple[object, ...]]:
            return {row[0]: row for row in self.index.sound(conn, self.ids)}

        return await self._storage.db.readers.run(rows)


def unit_vectors(count: int) -> Vectors:
    made: Vectors = random_vectors(count, 256)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made


async def file_size(storage: SqliteStorage) -> int:
    return (await storage.stats()).bytes


async def test_a_rewrite_packs_vectors_when_half_of_them_are_gone(storage: SqliteStorage) -> None:
    stored = await StoredVectors.filled(storage)
    await storage.upkeep.rewrite()
    full = await file_size(storage)
    await stored.delete(COUNT // 2)
    kept = await stored.contents()
    assert len(kept) == COUNT // 2
    assert await stored.blocks() == COUNT // BLOCK_SIZE, "vec0 itself gives no space back"
    assert await storage.db.read(is_due, now=storage.db.clock() + EVERY_MS)
    await storage.upkeep.rewrite()
    assert await stored.blocks() <= COUNT // 2 // BLOCK_SIZE + 1
    assert not await storage.db.read(is_due, now=storage.db.clock() + EVERY_MS)
    assert await file_size(storage) < 0.9 * full
    assert await stored.contents() == kept
    assert await storage.upkeep.check_vectors() == []
    assert await storage.upkeep.check_integrity() == []


async def test_a_file_does_not_grow_forever(storage: SqliteStorage) -> None:
    stored = await StoredVectors.filled(storage)
    await storage.upkeep.rewrite()
    full = await file_size(storage)
    for _ in range(6):
        await stored.insert(COUNT // 2)
        await stored.delete(COUNT // 2)
        await storage.upkeep.rewrite()
    assert await file_size(storage) < 1.6 * full
    assert sorted(await stored.contents()) == sorted(stored.ids)


async def test_full_blocks_are_left_as_they_are(storage: SqliteStorage) -> None:
    stored = await StoredVectors.filled(storage)
    assert not await storage.db.read(stored.index.is_sparse)
    await stored.delete(COUNT // 8)
    assert not await storage.db.read(stored.index.is_sparse)


async def test_many_small_namespaces_are_not_sparse(storage: SqliteStorage) -> None:
    stored = await StoredVectors.filled(storage)
    await stored.delete(COUNT)
    for number in range(30):
        await storage.entries.save(keyless("text", namespace=f"n{number}"), embed=False)
        vector = unit_vectors(1)[0].tobytes()
        await storage.db.write(
            stored.index.insert, rows=[(9_000 + number, f"n{number}", "knowledge", "", vector)]
        )
    assert await stored.blocks() == 30
    assert not await storage.db.read(stored.index.is_sparse)


async def test_vectors_saved_and_deleted_meanwhile_are_right(storage: SqliteStorage) -> None:
    stored = await StoredVectors.filled(storage)
    await stored.delete(COUNT // 2)
    rewriting = asyncio.create_task(storage.upkeep.rewrite())
    while not rewriting.done():
        await stored.insert(3)
        await stored.delete(2)
    await rewriting
    assert sorted(await stored.contents()) == sorted(stored.ids)
    assert await storage.upkeep.check_vectors() == []
