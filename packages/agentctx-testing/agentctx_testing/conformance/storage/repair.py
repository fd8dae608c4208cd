"""Damage that every storage engine must find and repair."""

from __future__ import annotations

from typing import Protocol

import pytest

from agentctx.embedding.providers.fake import FakeProvider
from agentctx.errors import NotFound
from agentctx.storage.base import Storage
from agentctx.storage.records import SaveOutcome, Space
from agentctx.text.chunking.base import Span
from agentctx_testing.drafts import ALL, FINGERPRINT, START_MS, draft, keyless

PROVIDER = FakeProvider(dimension=16)
MISSING_CHUNK = 987_654
"""The id of a chunk that does not exist."""
TEXTS = (
    "The harbour crane lifts containers at dawn.",
    "我们的数据库每天晚上备份一次",
    "call getUserName before the render",
    "A second paragraph about marzipan follows the first.",
    "Rotate the signing keys on Thursday.",
)


class Saboteur(Protocol):
    """Damages one thing in an engine's database from outside, as a bug or a bad disk would."""

    def remove_words(self, chunk: int) -> None:
        """Make keyword search unable to find the chunk."""
        ...

    def garble_words(self, chunk: int) -> None:
        """Index words that the chunk does not contain."""
        ...

    def remove_job(self, chunk: int) -> None: ...

    def add_job(self, chunk: int) -> None:
        """Add a job for a chunk, which need not exist, to the first space."""
        ...

    def remove_vector(self, space: int, chunk: int) -> None: ...

    def add_vector(self, space: int, chunk: int) -> None: ...

    def corrupt_vector(self, space: int, chunk: int) -> None:
        """Replace the vector by one that is not valid."""
        ...

    def drop_vectors(self, space: int) -> None:
        """Remove the table that stores the vectors of the space."""
        ...

    def add_orphan_chunk(self, chunk: int) -> int:
        """Give a dead version of the chunk's entry an indexed chunk; return its id."""
        ...

    def remove_chunk(self, chunk: int) -> None:
        """Remove only the chunk, not the rows that refer to it."""
        ...


async def prepared_space(storage: Storage) -> Space:
    space = await storage.spaces.open(FINGERPRINT)
    return await storage.spaces.prepare(space.id, (await PROVIDER.embed(["canary"]))[0])


async def embed_pending(storage: Storage) -> int:
    """Do the work of the embedding queue until no job is pending; return the number of vectors stored."""
    done = 0
    while jobs := await storage.jobs.claim(100, now=START_MS, lease_until=START_MS):
        done += await storage.jobs.complete(jobs, await PROVIDER.embed([job.text for job in jobs]))
    return done


async def filled(storage: Storage) -> list[SaveOutcome]:
    """Save an entry for each of `TEXTS` and embed all; the first has two chunks and a dead version."""
    await prepared_space(storage)
    await storage.entries.save(draft("an earlier text", key="first"), embed=True)
    halves = (Span(0, 20), Span(20, len(TEXTS[0])))
    saved = [await storage.entries.save(draft(TEXTS[0], key="first", spans=halves), embed=True)]
    saved += [await storage.entries.save(keyless(text), embed=True) for text in TEXTS[1:]]
    await embed_pending(storage)
    return saved


def chunk_of(saved: SaveOutcome) -> int:
    return saved.jobs[0].chunk


async def assert_healthy(storage: Storage) -> None:
    census = await storage.upkeep.census()
    assert census.violations == 0, census
    assert await storage.upkeep.check_integrity() == []
    assert await storage.upkeep.check_words() is None
    assert await storage.upkeep.check_vectors() == []


async def assert_every_chunk_is_found(storage: Storage, saved: list[SaveOutcome]) -> None:
    """Check that keyword search finds every chunk, and that vector search finds it at distance 0."""
    (space, *_) = await storage.spaces.all()
    for job in (job for outcome in saved for job in outcome.jobs):
        text = job.text.removeprefix("deploy ops\n")
        assert job.chunk in {hit.chunk for hit in (await storage.search.by_words(text, ALL, 50)).hits}, text
        query = await PROVIDER.embed_query(job.text)
        nearest = await storage.search.by_vector(space.id, query, ALL, 50)
        assert job.chunk in {hit.chunk for hit in nearest if hit.distance < 1e-5}, text


class RepairConformance:
    """Expects fixtures `storage`, and `saboteur`: a `Saboteur` of its database."""

    async def test_words_and_vectors_of_cues_are_rebuilt(self, storage: Storage) -> None:
        await prepared_space(storage)
        cues = ["Which umbrella shall I pack?", "planning a picnic"]
        saved = await storage.entries.save(
            draft("It rains on Fridays.", attributes={"cues": cues}), embed=True
        )
        await embed_pending(storage)
        assert await storage.upkeep.rebuild_words() == 3
        await assert_healthy(storage)
        for cue in cues:
            hits = (await storage.search.by_words(cue, ALL, 5)).hits
            assert [(hit.chunk, hit.cue > 0) for hit in hits] == [(saved.jobs[0].chunk, True)]

    async def test_a_healthy_database_is_left_alone(self, storage: Storage) -> None:
        saved = await filled(storage)
        await assert_healthy(storage)
        assert await storage.upkeep.remove_orphans() == 0
        assert await storage.upkeep.create_missing_jobs() == 0
        assert await storage.upkeep.rebuild_words() == 6
        await assert_healthy(storage)
        await assert_every_chunk_is_found(storage, saved)

    async def test_an_empty_database_is_healthy(self, storage: Storage) -> None:
        await assert_healthy(storage)
        assert await storage.spaces.all() == []
        assert await storage.upkeep.remove_orphans() == await storage.upkeep.create_missing_jobs() == 0
        assert await storage.upkeep.rebuild_words() == 0
        await assert_healthy(storage)

    async def test_spaces_are_listed_newest_first(self, storage: Storage) -> None:
        first = await prepared_space(storage)
        second = await storage.spaces.open({**FINGERPRINT, "model": "two"})
        assert [space.id for space in await storage.spaces.all()] == [second.id, first.id]

    async def test_missing_words_are_counted_and_rebuilt(self, storage: Storage, saboteur: Saboteur) -> None:
        saved = await filled(storage)
        saboteur.remove_words(chunk_of(saved[3]))
        assert (await storage.upkeep.census()).chunks_without_words == 1
        assert await storage.upkeep.check_words() is not None
        assert [hit.chunk for hit in (await storage.search.by_words("marzipan", ALL, 5)).hits] == []
        assert await storage.upkeep.rebuild_words() == 6
        await assert_healthy(storage)
        await assert_every_chunk_is_found(storage, saved)

    async def test_indexed_words_that_disagree_with_the_entry_are_repaired(
        self, storage: Storage, saboteur: Saboteur
    ) -> None:
        saved = await filled(storage)
        saboteur.garble_words(chunk_of(saved[3]))
        assert (await storage.upkeep.census()).violations == 0, "the census cannot see this"
        problem = await storage.upkeep.check_words()
        assert problem is not None
        assert "marzipan" not in problem
        await storage.upkeep.rebuild_words()
        await assert_healthy(storage)
        await assert_every_chunk_is_found(storage, saved)

    async def test_an_entry_without_words_can_be_changed_and_forgotten(
        self, storage: Storage, saboteur: Saboteur
    ) -> None:
        saved = await filled(storage)
        for outcome in saved[:2]:
            saboteur.remove_words(chunk_of(outcome))
        await storage.entries.save(draft("Another text altogether.", key="first"), embed=True)
        await storage.entries.delete(saved[1].id)
        await assert_healthy(storage)

    async def test_missing_jobs_are_created_again(self, storage: Storage, saboteur: Saboteur) -> None:
        saved = await filled(storage)
        space = (await storage.spaces.all())[0]
        pending = await storage.entries.save(keyless("still at the provider"), embed=True)
        saboteur.remove_job(chunk_of(pending))
        saboteur.remove_vector(space.id, chunk_of(saved[2]))
        assert (await storage.upkeep.census()).chunks_without_job == 2
        assert await storage.upkeep.create_missing_jobs() == 2
        assert await storage.upkeep.create_missing_jobs() == 0
        assert (await storage.upkeep.census()).violations == 0
        assert await embed_pending(storage) == 2
        await assert_healthy(storage)
        await assert_every_chunk_is_found(storage, [*saved, pending])

    async def test_disabled_spaces_need_no_jobs(self, storage: Storage) -> None:
        await filled(storage)
        await storage.spaces.disable_all()
        await storage.entries.save(keyless("nobody embeds this"), embed=True)
        assert await storage.upkeep.create_missing_jobs() == 0
        await assert_healthy(storage)

    async def test_orphans_are_counted_and_removed(self, storage: Storage, saboteur: Saboteur) -> None:
        saved = await filled(storage)
        space = (await storage.spaces.all())[0]
        saboteur.add_vector(space.id, MISSING_CHUNK)
        saboteur.add_job(MISSING_CHUNK)
        saboteur.add_orphan_chunk(chunk_of(saved[0]))
        census = await storage.upkeep.census()
        assert (census.orphan_vectors, census.orphan_jobs, census.orphan_chunks) == (1, 1, 1)
        assert census.violations == 3, "nothing else is wrong"
        assert await storage.upkeep.remove_orphans() >= 3
        assert await storage.upkeep.remove_orphans() == 0
        await assert_healthy(storage)
        await assert_every_chunk_is_found(storage, saved)

    async def test_a_dead_chunk_needs_no_job_vector_or_words(
        self, storage: Storage, saboteur: Saboteur
    ) -> None:
        saved = await filled(storage)
        orphan = saboteur.add_orphan_chunk(chunk_of(saved[0]))
        assert await storage.upkeep.create_missing_jobs() == 0
        saboteur.add_vector((await storage.spaces.all())[0].id, orphan)
        saboteur.remove_words(orphan)
        census = await storage.upkeep.census()
        assert (census.orphan_chunks, census.orphan_vectors, census.violations) == (1, 1, 2)
        assert await storage.upkeep.remove_orphans() == 2
        await assert_healthy(storage)
        await assert_every_chunk_is_found(storage, saved)

    async def test_jobs_of_a_disabled_space_are_orphans(self, storage: Storage, saboteur: Saboteur) -> None:
        saved = await filled(storage)
        await storage.spaces.disable_all()
        saboteur.add_job(chunk_of(saved[0]))
        assert (await storage.upkeep.census()).orphan_jobs == 1
        assert await storage.upkeep.remove_orphans() == 1
        await assert_healthy(storage)
        assert (await storage.entries.get(saved[0].id)) is not None

    async def test_remains_of_a_lost_chunk_are_removed(self, storage: Storage, saboteur: Saboteur) -> None:
        saved = await filled(storage)
        saboteur.remove_chunk(chunk_of(saved[3]))
        census = await storage.upkeep.census()
        assert (census.words_without_chunk, census.orphan_vectors, census.violations) == (1, 1, 2)
        assert await storage.upkeep.check_words() is not None
        assert await storage.upkeep.remove_orphans() == 2
        await assert_healthy(storage)
        assert (await storage.entries.get(saved[3].id)) is not None
        await assert_every_chunk_is_found(storage, [*saved[:3], saved[4]])

    async def test_an_invalid_vector_is_found_and_rebuilt(self, storage: Storage, saboteur: Saboteur) -> None:
        saved = await filled(storage)
        space = (await storage.spaces.all())[0]
        saboteur.corrupt_vector(space.id, chunk_of(saved[3]))
        (fault,) = await storage.upkeep.check_vectors()
        assert fault.space == space.id
        assert fault.problem
        assert await storage.upkeep.rebuild_vectors(space.id) == 6
        assert await storage.upkeep.rebuild_vectors(space.id) == 0, "every job is pending already"
        await assert_healthy(storage)
        assert await embed_pending(storage) == 6
        await assert_healthy(storage)
        await assert_every_chunk_is_found(storage, saved)

    async def test_lost_vectors_are_noticed_and_saves_continue(
        self, storage: Storage, saboteur: Saboteur
    ) -> None:
        saved = await filled(storage)
        space = (await storage.spaces.all())[0]
        saboteur.drop_vectors(space.id)
        census = await storage.upkeep.census()
        assert (census.vectors, census.chunks_without_job, census.violations) == (0, 6, 6)
        assert [fault.space for fault in await storage.upkeep.check_vectors()] == [space.id]
        await storage.entries.delete(saved.pop(2).id)
        saved.append(await storage.entries.save(keyless("saved in the meantime"), embed=True))
        assert (await storage.stats()).vectors == 0
        assert await storage.upkeep.rebuild_vectors(space.id) == 5
        assert await embed_pending(storage) == 6
        await assert_healthy(storage)
        await assert_every_chunk_is_found(storage, saved)

    async def test_buried_jobs_stay_buried_when_vectors_are_rebuilt(self, storage: Storage) -> None:
        await filled(storage)
        refused = await storage.entries.save(keyless("refused"), embed=True)
        await storage.jobs.bury(refused.jobs[0], "refused by the model")
        assert await storage.upkeep.rebuild_vectors((await storage.spaces.all())[0].id) == 6
        assert [row.entry for row in await storage.jobs.buried()] == [refused.id]

    async def test_only_a_prepared_space_is_rebuilt(self, storage: Storage) -> None:
        await filled(storage)
        old = (await storage.spaces.all())[0]
        new = await storage.spaces.open({**FINGERPRINT, "model": "two"})
        assert await storage.upkeep.rebuild_vectors(new.id) == 0
        await storage.spaces.activate(new.id)
        await storage.spaces.retire_former(new.id)
        assert await storage.upkeep.rebuild_vectors(old.id) == 0
        with pytest.raises(NotFound):
            await storage.upkeep.rebuild_vectors(99)

    async def test_rebuilding_a_disabled_space_leaves_it_empty(self, storage: Storage) -> None:
        await filled(storage)
        space = (await storage.spaces.all())[0]
        await storage.spaces.disable_all()
        assert await storage.upkeep.rebuild_vectors(space.id) == 0
        census = await storage.upkeep.census()
        assert (census.vectors, census.violations) == (0, 0)
