"""The SQLite engine with its vectors in Chroma: the conformance suites and what is its own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromadb.api.models.Collection import Collection

from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.storage.base import Storage
from agentctx.storage.records import Change
from agentctx.storage.sqlite import outside_engine, outside_index
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.outside_engine import OutsideVectorStorage
from agentctx.vector_stores.base import Vector
from agentctx.vector_stores.chroma_spaces import ChromaSpaces
from agentctx.vector_stores.outside import ChunkVector
from tests.storage.conformance import StorageConformance, assert_sound, embed, save, serving_space
from tests.storage.drafts import ALL, FINGERPRINT, HandClock, draft, keyless, vector, vectors
from tests.storage.repair_conformance import (
    CareConformance,
    Saboteur,
    assert_everything_is_found,
    assert_healthy,
    embed_owed,
    filled,
)
from tests.storage.sqlite_saboteur import SqliteSaboteur


class FailingSpaces:
    """Chroma that can be told to fail: before it does what it is asked, or after."""

    name = "chroma"

    def __init__(self, spaces: ChromaSpaces) -> None:
        self._spaces = spaces
        self.fails: str | None = None
        self.refuses_deletions = False
        self.is_called = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def upsert(self, space: int, vectors: Sequence[ChunkVector]) -> None:
        self.is_called.set()
        await self.may_go_on.wait()
        self._fail("before")
        await self._spaces.upsert(space, vectors)
        self._fail("after")

    async def delete(self, space: int, chunks: Sequence[int]) -> None:
        self._fail("before")
        if self.refuses_deletions:
            raise StorageFailed("nothing is deleted at present")
        await self._spaces.delete(space, chunks)
        self._fail("after")

    async def drop(self, space: int) -> None:
        self._fail("before")
        await self._spaces.drop(space)

    async def nearest(
        self,
        space: int,
        query: Vector,
        limit: int,
        *,
        namespace: str,
        collections: Sequence[str] | None = None,
        session: str | None = None,
        among: Sequence[int] | None = None,
    ) -> list[tuple[int, float]]:
        self._fail("before")
        return await self._spaces.nearest(
            space,
            query,
            limit,
            namespace=namespace,
            collections=collections,
            session=session,
            among=among,
        )

    async def distances(self, space: int, query: Vector, chunks: Sequence[int]) -> dict[int, float]:
        self._fail("before")
        return await self._spaces.distances(space, query, chunks)

    async def places(self, space: int) -> Mapping[int, tuple[str, str, str]]:
        self._fail("before")
        return await self._spaces.places(space)

    async def faulty(self, space: int, dimension: int) -> list[int]:
        return await self._spaces.faulty(space, dimension)

    async def aclose(self) -> None:
        await self._spaces.aclose()

    def _fail(self, moment: str) -> None:
        if self.fails == moment:
            raise StorageFailed("the store does not answer")


class ChromaSaboteur(SqliteSaboteur):
    """Breaks vectors where they are."""

    def __init__(self, path: Path, chroma: ChromaSpaces) -> None:
        super().__init__(path)
        self._chroma = chroma

    def forget_vector(self, space: int, chunk: int) -> None:
        self._on(space).delete(ids=[str(chunk)])

    def add_vector(self, space: int, chunk: int) -> None:
        stored = self._on(space).get(limit=1, include=["embeddings"])["embeddings"]
        dimension = len(stored[0]) if stored is not None and len(stored) else 16
        place = {"namespace": "x", "collection": "", "session": ""}
        self._on(space).upsert(
            ids=[str(chunk)], embeddings=[np.eye(1, dimension, dtype=np.float32)[0]], metadatas=[place]
        )

    def spoil_vector(self, space: int, chunk: int) -> None:
        self._on(space).update(ids=[str(chunk)], embeddings=[np.zeros(16, np.float32)])

    def move_vector(self, space: int, chunk: int) -> None:
        self._on(space).update(ids=[str(chunk)], metadatas=[{"namespace": "foreign"}])

    def lose_vectors(self, space: int) -> None:
        self._chroma._drop(space)

    def _on(self, space: int) -> Collection:
        return self._chroma._collection(space)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def chroma(tmp_path: Path) -> ChromaSpaces:
    return await ChromaSpaces.open(prefix="space-", path=tmp_path / "chroma")


@pytest.fixture
def outside(chroma: ChromaSpaces) -> FailingSpaces:
    return FailingSpaces(chroma)


@pytest.fixture
async def storage(
    tmp_path: Path, clock: HandClock, outside: FailingSpaces
) -> AsyncIterator[OutsideVectorStorage]:
    opened = await OutsideVectorStorage.open_outside(tmp_path / "agentctx.db", outside, clock=clock)
    yield opened
    outside.fails = None
    await opened.close()


@pytest.fixture
def saboteur(tmp_path: Path, chroma: ChromaSpaces) -> ChromaSaboteur:
    return ChromaSaboteur(tmp_path / "agentctx.db", chroma)


class TestOutsideStorage(StorageConformance):
    """Runs the suite."""


class TestOutsideCare(CareConformance):
    async def test_lost_vectors_are_noticed_and_saves_go_on(
        self, storage: Storage, saboteur: Saboteur
    ) -> None:
        """Only the store knows that they are gone: status counts what it was given."""
        saved = await filled(storage)
        space = (await storage.spaces())[0]
        saboteur.lose_vectors(space.id)
        census = await storage.census()
        assert (census.vectors, census.unowed_chunks, census.violations) == (0, 6, 6)
        assert [fault.space for fault in await storage.check_vectors()] == [space.id]
        await storage.delete(saved.pop(2).id)
        saved.append(await storage.save(keyless("saved in the meantime"), owed=True))
        assert await storage.rebuild_vectors(space.id) == 5
        assert await embed_owed(storage) == 6
        await assert_healthy(storage)
        await assert_everything_is_found(storage, saved)

    async def test_a_vector_in_a_foreign_namespace_is_a_fault(
        self, storage: OutsideVectorStorage, saboteur: ChromaSaboteur
    ) -> None:
        saved = await filled(storage)
        space = (await storage.spaces())[0]
        saboteur.move_vector(space.id, saved[1].jobs[0].chunk)
        (fault,) = await storage.check_vectors()
        assert "namespace" in fault.problem


async def there(outside: FailingSpaces, space: int) -> set[int]:
    return set(await outside.places(space))


async def test_a_deleted_entry_leaves_the_store_by_itself(
    storage: OutsideVectorStorage, outside: FailingSpaces
) -> None:
    space = await serving_space(storage)
    saved = await save(storage, draft())
    await embed(storage, saved)
    assert await there(outside, space.id) == {saved.jobs[0].chunk}
    await storage.delete(saved.id)
    await storage.remove_gone()
    assert await there(outside, space.id) == set()


@pytest.mark.parametrize("error", [StorageFailed("not now"), DeadlineExceeded("the readers are busy")])
async def test_a_removal_that_fails_is_tried_again(
    storage: OutsideVectorStorage,
    outside: FailingSpaces,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    monkeypatch.setattr(outside_engine, "REMOVAL_RETRY_S", 0.001)
    space = await serving_space(storage)
    saved = await save(storage, draft())
    await embed(storage, saved)
    run, tries, removed = storage._readers.run, itertools.count(), asyncio.Event()

    async def run_or_fail(fn: Any, **options: Any) -> Any:
        if getattr(fn, "func", None) is outside_index.removals and next(tries) < 2:
            raise error
        return await run(fn, **options)

    async def delete(space: int, chunks: Sequence[int]) -> None:
        await FailingSpaces.delete(outside, space, chunks)
        removed.set()

    monkeypatch.setattr(storage._readers, "run", run_or_fail)
    monkeypatch.setattr(outside, "delete", delete)
    await storage.delete(saved.id)
    async with asyncio.timeout(10):
        await removed.wait()
    assert await there(outside, space.id) == set()
    await storage.close()


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_failing_store_leaves_the_job_and_the_next_try_stores_once(
    storage: OutsideVectorStorage, outside: FailingSpaces, moment: str
) -> None:
    space = await serving_space(storage)
    saved = await save(storage, draft())
    outside.fails = moment
    with pytest.raises(StorageFailed):
        await embed(storage, saved)
    assert (await storage.depth()).pending == 1
    outside.fails = None
    await assert_sound(storage)
    assert await storage.search_vectors(space.id, vector(1), ALL, 5) == []
    assert await embed(storage, saved) == 1
    await assert_sound(storage)
    assert await there(outside, space.id) == {saved.jobs[0].chunk}


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_an_entry_deleted_while_its_vector_was_on_the_way_leaves_nothing(
    storage: OutsideVectorStorage, outside: FailingSpaces, moment: str
) -> None:
    space = await serving_space(storage)
    saved = await save(storage, draft())
    outside.fails = moment
    with pytest.raises(StorageFailed):
        await embed(storage, saved)
    outside.fails = None
    await storage.delete(saved.id)
    await storage.remove_gone()
    assert await there(outside, space.id) == set()
    await assert_sound(storage)


async def test_an_edit_during_the_upsert_is_not_answered_with_the_old_vector(
    storage: OutsideVectorStorage, outside: FailingSpaces
) -> None:
    space = await serving_space(storage)
    saved = await save(storage, draft(header="first"))
    outside.may_go_on.clear()
    old = asyncio.create_task(embed(storage, saved, vector(1)))
    await outside.is_called.wait()
    changed = await save(storage, draft(header="second", attributes={"category": "other"}))
    assert changed.change is Change.ATTRIBUTES
    outside.may_go_on.set()
    assert await old == 0
    assert await storage.search_vectors(space.id, vector(1), ALL, 5) == []
    assert await storage.distances(space.id, vector(1), [saved.jobs[0].chunk]) == {}
    await assert_sound(storage)
    assert await embed(storage, changed, vector(0, 1)) == 1
    (hit,) = await storage.search_vectors(space.id, vector(0, 1), ALL, 5)
    assert hit.distance == pytest.approx(0, abs=1e-6)
    await assert_sound(storage)


async def test_a_cancelled_completion_is_finished_all_the_same(
    storage: OutsideVectorStorage, outside: FailingSpaces
) -> None:
    await serving_space(storage)
    saved = await save(storage, draft())
    outside.may_go_on.clear()
    task = asyncio.create_task(embed(storage, saved))
    await outside.is_called.wait()
    task.cancel()
    await asyncio.wait({task})
    outside.may_go_on.set()
    await storage.remove_gone()
    assert (await storage.depth()).pending == 0
    await assert_sound(storage)


async def test_vectors_of_chunks_that_are_gone_take_no_places_in_an_answer(
    storage: OutsideVectorStorage, outside: FailingSpaces
) -> None:
    space = await serving_space(storage)
    near = [await save(storage, keyless(f"near {number}")) for number in range(12)]
    far = await save(storage, keyless("far"))
    for saved in near:
        await embed(storage, saved)
    await embed(storage, far, vector(0, 1))
    outside.refuses_deletions = True
    for saved in near:
        await storage.delete(saved.id)
    assert len(await there(outside, space.id)) == 13
    hits = await storage.search_vectors(space.id, vector(1), ALL, 3)
    assert [hit.entry for hit in hits] == [far.id]
    await assert_sound(storage)


async def test_saves_and_words_need_no_store(storage: OutsideVectorStorage, outside: FailingSpaces) -> None:
    space = await serving_space(storage)
    outside.fails = "before"
    saved = await save(storage, draft("The harbour crane"))
    assert [hit.entry for hit in await storage.search_words("crane", ALL, 5)] == [saved.id]
    with pytest.raises(StorageFailed):
        await storage.search_vectors(space.id, vector(1), ALL, 5)
    assert await storage.delete(saved.id) == 1


async def test_a_store_that_was_exchanged_is_filled_again(
    tmp_path: Path, clock: HandClock, storage: OutsideVectorStorage, outside: FailingSpaces
) -> None:
    space = await serving_space(storage)
    kept, lost = await save(storage, keyless("kept")), await save(storage, keyless("lost"))
    await storage.complete([*kept.jobs, *lost.jobs], vectors(vector(1), vector(0, 1)))
    stray = ChunkVector(987, "default", "knowledge", "", vector(1))
    await outside.upsert(space.id, [stray])
    await outside.delete(space.id, [lost.jobs[0].chunk])
    await storage.prepare_space(space.id, vector(1))
    assert await there(outside, space.id) == {kept.jobs[0].chunk}
    assert await storage.backfill(space.id) == 1
    await assert_sound(storage)


async def test_a_retired_space_leaves_the_store(
    storage: OutsideVectorStorage, outside: FailingSpaces
) -> None:
    old = await serving_space(storage)
    await embed(storage, await save(storage, draft()))
    new = await storage.open_space({**FINGERPRINT, "model": "two"})
    await storage.prepare_space(new.id, vector(0, 1))
    await storage.activate_space(new.id)
    await storage.remove_gone()
    assert await there(outside, old.id) == set()


async def test_with_another_vector_store_the_space_is_another_one(
    tmp_path: Path, clock: HandClock, storage: OutsideVectorStorage
) -> None:
    first = await serving_space(storage)
    saved = await save(storage, draft())
    await embed(storage, saved)
    await storage.close()
    inside = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock)
    try:
        second = await serving_space(inside)
        assert (second.id, second.vector_store) == (first.id + 1, "sqlite-vec")
        assert await inside.owed(second.id) == 1
        jobs = await inside.claim(5, now=clock.now, lease_until=clock.now)
        assert await inside.complete(jobs, vectors(vector(1))) == 1
        await inside.activate_space(second.id)
        assert len(await inside.search_vectors(second.id, vector(1), ALL, 5)) == 1
        await assert_sound(inside)
    finally:
        await inside.close()


async def test_a_closed_storage_has_closed_its_store(
    storage: OutsideVectorStorage, chroma: ChromaSpaces
) -> None:
    await storage.close()
    with pytest.raises(StorageFailed):
        await chroma.places(1)
