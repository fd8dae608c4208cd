"""Searching the cache in memory: the same results as from the table, committed data only, bounded memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from agentctx.errors import StorageFailed
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.records import Draft, SaveOutcome, Space
from agentctx.storage.search import Distances, Filter, NearestChunk, Steps
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.search.search_storage import SqliteSearch
from agentctx.storage.sqlite.vectors import vector_caches
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.sqlite.vectors.vector_cache import VectorCache, row_bytes
from agentctx.storage.vectors import Vectors
from agentctx_testing.conformance.storage.conversations import ConversationConformance
from agentctx_testing.conformance.storage.cues import CueConformance
from agentctx_testing.conformance.storage.search import SearchConformance
from agentctx_testing.conformance.storage.spaces import OTHER, SpaceConformance
from agentctx_testing.drafts import (
    ALL,
    FINGERPRINT,
    ManualClock,
    draft,
    embed,
    keyless,
    save,
    serving_space,
    vector,
    vectors,
)

DIMENSION = 24
NAMESPACES = ("default", "other")
FILTERS = (
    ALL,
    Filter(namespace="other"),
    Filter(namespace="default", collections=("knowledge",)),
    Filter(namespace="default", session="s1"),
    Filter(namespace="default", trust=("agent",)),
    Filter(namespace="default", agent="coder"),
)


class CopyFirst(SqliteSearch):
    """Waits for the cache, so that the table is searched only when there can be no cache."""

    async def by_vector(self, space: int, query: Vectors, wanted: Filter, limit: int) -> list[NearestChunk]:
        await super().by_vector(space, query, wanted, limit)
        await self.db.caches.refreshed()
        return await super().by_vector(space, query, wanted, limit)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def storage(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteStorage]:
    opened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock)
    opened.search = CopyFirst(opened.db)
    yield opened
    await opened.close()


class TestWithCopies(SearchConformance, CueConformance, SpaceConformance, ConversationConformance):
    """Runs the parts of the suite that search by vector, with every vector in memory."""


def cache_of(storage: SqliteStorage, space: Space) -> VectorCache:
    cache = storage.db.caches._caches[space.id]
    assert cache.is_whole
    return cache


async def filled(storage: SqliteStorage, count: int = 3) -> tuple[Space, list[SaveOutcome]]:
    """Fill a space and load its vectors into memory."""
    space = await serving_space(storage)
    saved = [await save(storage, keyless(f"text {number}")) for number in range(count)]
    for number, each in enumerate(saved):
        await embed(storage, each, vector(1, number))
    assert len(await storage.search.by_vector(space.id, vector(1), ALL, count)) == count
    await storage.db.caches.refreshed()
    return space, saved


async def entries_near(storage: SqliteStorage, space: Space, *numbers: float, limit: int = 10) -> list[str]:
    return [hit.entry for hit in await storage.search.by_vector(space.id, vector(*numbers), ALL, limit)]


class RandomWrites:
    """Random saves and deletes through two engines on the same file."""

    def __init__(self, storage: SqliteStorage, other: SqliteStorage, seed: int) -> None:
        self.storage = storage
        self._engines = (storage, other)
        self._random = np.random.default_rng(seed)
        self._live: list[str] = []

    def vector(self) -> Vectors:
        drawn = self._random.normal(size=DIMENSION)
        return np.asarray(drawn / np.linalg.norm(drawn), dtype=np.float32)

    async def write(self) -> None:
        engine = self._engines[self._random.integers(2)]
        if self._live and self._random.random() < 0.3:
            await engine.entries.delete(self._live.pop(self._random.integers(len(self._live))))
            return
        saved = await engine.entries.save(self._draft(), embed=True)
        self._live = [*(each for each in self._live if each != saved.id), saved.id]
        if saved.jobs and self._random.random() < 0.9:
            await engine.jobs.complete(saved.jobs, np.stack([self.vector() for _ in saved.jobs]))

    def _draft(self) -> Draft:
        drawn = self._random
        key = f"k{drawn.integers(40)}" if drawn.random() < 0.4 else None
        return draft(
            f"text {drawn.integers(10**9)}",
            key=key,
            namespace=str(drawn.choice(NAMESPACES)),
            collection=str(drawn.choice(["knowledge", "observation"])),
            session=str(drawn.choice(["", "s1", "s2"])),
            trust=str(drawn.choice(["agent", "agent", "external"])),
            agent=str(drawn.choice(["coder", "planner"])),
        )


@pytest.mark.parametrize("seed", range(2))
async def test_the_cache_and_the_table_give_the_same_results(
    tmp_path: Path, clock: ManualClock, seed: int
) -> None:
    """After random writes in this engine and in another one on the same file."""
    path = tmp_path / "agentctx.db"
    storage = await SqliteStorage.open(path, clock=clock)
    other = await SqliteStorage.open(path, clock=clock, memory_mb=0)
    try:
        space = await storage.spaces.open({**FINGERPRINT, "dimension": DIMENSION})
        writing = RandomWrites(storage, other, seed)
        await storage.spaces.prepare(space.id, writing.vector())
        in_memory = 0
        for number in range(180):
            await writing.write()
            if number % 50 == 49:
                await storage.upkeep.tidy()
            if number % 6 == 0:
                query, wanted = writing.vector(), FILTERS[number // 6 % len(FILTERS)]
                expected = await other.search.by_vector(space.id, query, wanted, 7)
                in_memory += space.id in storage.db.caches._caches
                hits = await storage.search.by_vector(space.id, query, wanted, 7)
                assert [hit.entry for hit in hits] == [hit.entry for hit in expected]
                assert [hit.distance for hit in hits] == pytest.approx([hit.distance for hit in expected])
                await storage.db.caches.refreshed()
        assert in_memory > 20
    finally:
        await other.close()
        await storage.close()


async def test_the_next_search_finds_a_new_vector(storage: SqliteStorage) -> None:
    space, _ = await filled(storage)
    for number in range(5):
        saved = await save(storage, keyless(f"new {number}"))
        await embed(storage, saved, vector(0, 0, 1, number))
        nearest = await SqliteSearch.by_vector(storage.search, space.id, vector(0, 0, 1, number), ALL, 1)
        assert [hit.entry for hit in nearest] == [saved.id]
        assert cache_of(storage, space).rows == 4 + number


async def test_a_vector_stored_again_replaces_the_old_one(storage: SqliteStorage) -> None:
    space, (first, *_) = await filled(storage)
    again = await save(storage, keyless("text 0"))  # another entry, so that ids and chunks differ
    await embed(storage, again, vector(0, 1))
    await storage.db.writer.run(lambda conn: SpaceIndex(space.id).delete(conn, [first.jobs[0].chunk]))
    assert first.id not in await entries_near(storage, space, 1)
    await storage.upkeep.create_missing_jobs()
    jobs = await storage.jobs.claim(10, now=0, lease_until=1)
    await storage.jobs.complete(jobs, vectors(vector(0, 0, 0, 1)))
    assert (await entries_near(storage, space, 0, 0, 0, 1))[0] == first.id
    assert (await entries_near(storage, space, 1)).count(first.id) == 1


async def test_tidying_removes_forgotten_vectors_from_memory(storage: SqliteStorage) -> None:
    space, saved = await filled(storage, 10)
    assert cache_of(storage, space).gone == 0
    await storage.entries.delete(saved[4].id)
    assert saved[4].id not in await entries_near(storage, space, 1, 4)
    assert await storage.upkeep.tidy()
    cache = cache_of(storage, space)
    assert cache.gone == 1
    (row,) = np.flatnonzero(cache._blocks[0].seqs[: cache.rows] == 0)
    assert not cache._blocks[0].codes[row].any()
    assert len(await entries_near(storage, space, 1)) == 9


async def test_many_deleted_vectors_do_not_use_up_the_limit(storage: SqliteStorage) -> None:
    """Until they are tidied up, the search asks for more candidates."""
    space = await serving_space(storage)
    near = await asyncio.gather(*(save(storage, keyless(f"near {number}")) for number in range(150)))
    far = await save(storage, keyless("far"))
    await asyncio.gather(*(embed(storage, each, vector(1)) for each in near))
    await embed(storage, far, vector(0, 1))
    assert len(await entries_near(storage, space, 1)) == 10
    await asyncio.gather(*(storage.entries.delete(each.id) for each in near))
    assert await entries_near(storage, space, 1) == [far.id]


async def test_a_cache_of_mostly_deleted_vectors_is_rebuilt(storage: SqliteStorage) -> None:
    space, saved = await filled(storage, 10)
    for each in saved[:5]:
        await storage.entries.delete(each.id)
    await storage.upkeep.tidy()
    assert storage.db.caches.bytes == 0
    assert len(await entries_near(storage, space, 1)) == 5
    assert (cache_of(storage, space).rows, cache_of(storage, space).gone) == (5, 0)


async def test_a_write_that_is_rolled_back_leaves_no_trace(storage: SqliteStorage) -> None:
    space, _ = await filled(storage)
    lost = await save(storage, keyless("lost"))

    def fail(conn: Connection) -> None:
        SpaceIndex(space.id).insert(conn, [])
        conn.execute(
            "INSERT INTO vector_checksums (space, chunk, checksum) VALUES (?, ?, x'00')",
            (space.id, lost.jobs[0].chunk),
        )
        raise StorageFailed("nothing of this is kept")

    with pytest.raises(StorageFailed):
        await storage.db.writer.run(fail)
    assert len(await entries_near(storage, space, 1)) == 3
    kept = await save(storage, keyless("kept"))
    await embed(storage, kept, vector(0, 0, 1))
    assert await entries_near(storage, space, 0, 0, 1, limit=1) == [kept.id]


async def test_a_rebuilt_table_is_noticed(storage: SqliteStorage) -> None:
    space, saved = await filled(storage)
    await storage.upkeep.rebuild_vectors(space.id)
    assert await entries_near(storage, space, 1) == []
    jobs = await storage.jobs.claim(10, now=0, lease_until=1)
    assert await storage.jobs.complete(jobs, vectors(*(vector(0, 1) for _ in jobs))) == 3
    hits = await storage.search.by_vector(space.id, vector(0, 1), ALL, 10)
    assert sorted(hit.entry for hit in hits) == sorted(each.id for each in saved)
    assert [hit.distance for hit in hits] == pytest.approx([0, 0, 0], abs=1e-6)


async def test_only_the_active_space_stays_in_memory(storage: SqliteStorage) -> None:
    first, _ = await filled(storage)
    second = await storage.spaces.open(OTHER)
    await storage.spaces.prepare(second.id, vector(1))
    jobs = await storage.jobs.claim(10, now=0, lease_until=1, space=second.id)
    await storage.jobs.complete(jobs, vectors(*(vector(0, 1) for _ in jobs)))
    await storage.spaces.activate(second.id)
    assert len(await entries_near(storage, second, 1)) == 3
    assert set(storage.db.caches._caches) == {first.id, second.id}
    await storage.upkeep.tidy()
    assert set(storage.db.caches._caches) == {second.id}


async def test_a_damaged_vector_is_not_found(tmp_path: Path, storage: SqliteStorage) -> None:
    space, (bad, *good) = await filled(storage)
    with closing(open_connection(tmp_path / "agentctx.db")) as connection:
        connection.execute(
            "UPDATE vector_checksums SET checksum = x'00' WHERE chunk = ?", (bad.jobs[0].chunk,)
        )
    assert await entries_near(storage, space, 1) == [each.id for each in good]
    assert storage.db.faults.count > 0


async def test_a_damaged_vector_is_not_loaded(tmp_path: Path, storage: SqliteStorage) -> None:
    """Otherwise, the rounded distances of keyword hits would be measured from it."""
    space, (bad, *good) = await filled(storage)
    chunks = [each.jobs[0].chunk for each in (bad, *good)]
    with closing(open_connection(tmp_path / "agentctx.db")) as connection:
        connection.execute("UPDATE vector_checksums SET checksum = x'00' WHERE chunk = ?", (chunks[0],))
    storage.db.caches._caches.clear()
    storage.db.caches.refresh_soon(space.id)
    await storage.db.caches.refreshed()
    assert storage.db.faults.count == 1
    assert cache_of(storage, space).rows == len(good)

    def distances() -> Steps[dict[int, float]]:
        found: dict[int, float] = yield Distances(vector(1), chunks)
        return found

    assert set(await storage.search.follow(distances, space.id)) == set(chunks[1:])


async def test_without_memory_the_table_is_searched(tmp_path: Path, clock: ManualClock) -> None:
    storage = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock, memory_mb=0)
    storage.search = CopyFirst(storage.db)
    try:
        await filled(storage)
        assert storage.db.caches.bytes == 0
    finally:
        await storage.close()


async def test_a_space_that_is_too_large_is_searched_in_the_table(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage.db.caches, "_max_bytes", 4 * row_bytes(4))
    space, saved = await filled(storage, 4)
    assert cache_of(storage, space).bytes == storage.db.caches.bytes == 4 * row_bytes(4)
    fifth = await save(storage, keyless("one too many"))
    await embed(storage, fifth, vector(1))
    storage.db.caches._caches[space.id].is_whole = False
    assert len(await entries_near(storage, space, 1)) == 5
    assert storage.db.caches.bytes == 0
    await storage.entries.delete(saved[0].id)
    await storage.upkeep.tidy()
    assert len(await entries_near(storage, space, 1)) == 4
    assert cache_of(storage, space).rows == 4


async def test_a_search_does_not_wait_for_many_new_vectors(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_caches, "MAX_BEHIND", 2)
    space, _ = await filled(storage)
    for number in range(5):
        await embed(storage, await save(storage, keyless(f"new {number}")), vector(0, 0, 1))
    hits = await SqliteSearch.by_vector(storage.search, space.id, vector(0, 0, 1), ALL, 8)
    assert len(hits) == 8
    assert not storage.db.caches._caches[space.id].is_whole
    await storage.db.caches.refreshed()
    assert cache_of(storage, space).rows == 8


async def test_replaced_vectors_are_looked_up_only_after_many_writes(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_caches, "UNCHECKED_ROWS", 4)
    space, _ = await filled(storage, 12)
    for number in range(5):
        await embed(storage, await save(storage, draft(f"version {number}")), vector(0, 0, 1, number))
        await entries_near(storage, space, 1)
    cache = cache_of(storage, space)
    assert (cache.rows, cache.gone) == (17, 4)


async def test_a_cache_that_cannot_be_built_does_not_affect_searches(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> bool:
        raise StorageFailed("the disk does not answer")

    space = await serving_space(storage)
    saved = await save(storage, keyless("text"))
    await embed(storage, saved)
    with monkeypatch.context() as patched:
        patched.setattr(vector_caches, "_continue", fail)
        assert await entries_near(storage, space, 1) == [saved.id]
    assert await entries_near(storage, space, 1) == [saved.id]
    assert cache_of(storage, space).rows == 1
    with monkeypatch.context() as patched:
        patched.setattr(vector_caches, "_continue", fail)
        assert await storage.upkeep.tidy()
    assert storage.db.caches.bytes == 0, "a cache that cannot be checked is dropped"


async def test_concurrent_searches_while_vectors_change(storage: SqliteStorage) -> None:
    space, saved = await filled(storage, 30)

    async def write() -> None:
        for each in saved[:10]:
            await embed(storage, await save(storage, keyless(f"other {each.id}")), vector(0, 0, 1))
            await storage.entries.delete(each.id)
            await storage.upkeep.tidy()

    async def search() -> None:
        for _ in range(20):
            hits = await SqliteSearch.by_vector(storage.search, space.id, vector(1), ALL, 20)
            kept = {each.id for each in saved[10:]}
            assert len(hits) == 20
            assert len({hit.entry for hit in hits} & kept) >= 10

    await asyncio.gather(write(), *(search() for _ in range(3)))
    assert sorted(await entries_near(storage, space, 0, 0, 1, limit=50))
    assert len(await entries_near(storage, space, 1, limit=50)) == 30


async def test_closing_stops_running_work(tmp_path: Path, clock: ManualClock) -> None:
    opened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock)
    space = await serving_space(opened)
    await embed(opened, await save(opened, keyless("text")))
    await opened.search.by_vector(space.id, vector(1), ALL, 1)
    await opened.close()
    assert opened.db.caches.bytes == 0
