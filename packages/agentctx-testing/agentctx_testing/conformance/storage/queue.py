"""Jobs of the embedding queue."""

from __future__ import annotations

from dataclasses import replace

from agentctx.storage.base import Storage
from agentctx.text.chunking.base import Span
from agentctx_testing.drafts import (
    ALL,
    FINGERPRINT,
    START_MS,
    ManualClock,
    assert_sound,
    draft,
    embed,
    keyless,
    save,
    serving_space,
    vector,
)


class QueueConformance:
    async def test_saving_without_embedding_creates_no_job(self, storage: Storage) -> None:
        await storage.spaces.open(FINGERPRINT)
        assert (await storage.entries.save(draft(), embed=False)).jobs == ()
        assert (await storage.jobs.depth()).pending == 0

    async def test_saving_without_a_space_creates_no_job(self, storage: Storage) -> None:
        saved = await save(storage, draft())
        assert (saved.jobs, saved.embedded, saved.pending) == ((), False, False)

    async def test_every_chunk_gets_a_job_with_its_text(self, storage: Storage) -> None:
        await serving_space(storage)
        saved = await save(storage, draft("hello world", spans=(Span(0, 6), Span(6, 11)), header="key"))
        assert [job.text for job in saved.jobs] == ["key\nhello ", "key\nworld"]
        assert (saved.embedded, saved.pending) == (True, True)
        claimed = await storage.jobs.claim(10, now=START_MS, lease_until=START_MS + 1)
        assert claimed == list(saved.jobs)

    async def test_completing_jobs_stores_vectors_and_removes_the_jobs(self, storage: Storage) -> None:
        await serving_space(storage)
        saved = await save(storage, draft())
        assert await embed(storage, saved) == 1
        assert (await storage.jobs.depth()).pending == 0
        assert not (await storage.entries.get(saved.id)).pending  # type: ignore[union-attr]
        assert await embed(storage, saved) == 0, "a second reply to the same job is stale"
        census = await storage.upkeep.census()
        assert (census.vectors, census.violations) == (1, 0)

    async def test_a_vector_for_replaced_text_is_dropped(self, storage: Storage) -> None:
        space = await serving_space(storage)
        first = await save(storage, draft("old text"))
        second = await save(storage, draft("new text"))
        assert await embed(storage, first, vector(0, 1)) == 0
        assert await storage.search.by_vector(space.id, vector(1), ALL, 5) == []
        assert await embed(storage, second, vector(1)) == 1
        await assert_sound(storage)

    async def test_a_vector_for_a_changed_header_is_dropped(self, storage: Storage) -> None:
        await serving_space(storage)
        first = await save(storage, draft())
        second = await save(storage, draft(attributes={"category": "rule"}, header="other"))
        assert await embed(storage, first) == 0
        assert await embed(storage, second) == 1

    async def test_a_vector_for_a_deleted_entry_is_dropped(self, storage: Storage) -> None:
        space = await serving_space(storage)
        saved = await save(storage, draft())
        await storage.entries.delete(saved.id)
        assert await embed(storage, saved) == 0
        assert await storage.search.by_vector(space.id, vector(1), ALL, 5) == []
        await assert_sound(storage)

    async def test_claims_are_leased_oldest_first(self, storage: Storage) -> None:
        await serving_space(storage)
        jobs = [(await save(storage, keyless(f"text {n}"))).jobs[0] for n in range(4)]
        assert await storage.jobs.claim(2, now=START_MS, lease_until=START_MS + 10) == jobs[:2]
        claimed = await storage.jobs.claim(5, now=START_MS, lease_until=START_MS + 10, exclude=[jobs[2].id])
        assert claimed == jobs[3:]
        assert await storage.jobs.next_due(START_MS) == START_MS + 10
        assert await storage.jobs.claim(5, now=START_MS + 10, lease_until=START_MS + 20) == jobs
        await storage.jobs.release_leases()
        assert len(await storage.jobs.claim(5, now=START_MS + 10, lease_until=START_MS + 20)) == 4

    async def test_postponed_jobs_wait_and_count_attempts(self, storage: Storage) -> None:
        await serving_space(storage)
        job = (await save(storage, draft())).jobs[0]
        await storage.jobs.postpone([job], not_before=START_MS + 50, error="provider down")
        assert await storage.jobs.claim(5, now=START_MS + 49, lease_until=START_MS + 99) == []
        assert await storage.jobs.next_due(START_MS) == START_MS + 50
        assert await storage.jobs.claim(5, now=START_MS + 50, lease_until=START_MS + 99) == [
            replace(job, attempts=1)
        ]

    async def test_buried_jobs_are_listed_and_retried(self, storage: Storage) -> None:
        await serving_space(storage)
        saved = await save(storage, draft())
        await storage.jobs.bury(saved.jobs[0], "refused by the model")
        assert await storage.jobs.claim(5, now=START_MS, lease_until=START_MS + 9) == []
        depth = await storage.jobs.depth()
        assert (depth.pending, depth.buried, depth.oldest) == (0, 1, None)
        (row,) = await storage.jobs.buried()
        assert (row.entry, row.reason, row.attempts) == (saved.id, "refused by the model", 1)
        await assert_sound(storage)
        assert await storage.jobs.retry_buried() == 1
        assert await storage.jobs.claim(5, now=START_MS, lease_until=START_MS + 9) == list(saved.jobs)

    async def test_depth_reports_the_oldest_job(self, storage: Storage, clock: ManualClock) -> None:
        await serving_space(storage)
        await save(storage, keyless("one"))
        clock.now += 70
        await save(storage, keyless("two"))
        depth = await storage.jobs.depth()
        assert (depth.pending, depth.oldest) == (2, START_MS)
