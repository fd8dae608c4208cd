"""Spaces: the vectors of one model each."""

from __future__ import annotations

import pytest

from agentctx.errors import Conflict
from agentctx.storage.base import Storage
from agentctx.storage.records import Job, SpaceState
from agentctx_testing.drafts import (
    ALL,
    FINGERPRINT,
    START_MS,
    assert_sound,
    draft,
    embed,
    keyless,
    save,
    serving_space,
    vector,
    vectors,
)

OTHER = {**FINGERPRINT, "model": "other"}


class SpaceConformance:
    async def test_the_first_space_is_active_and_enabled(self, storage: Storage) -> None:
        space = await storage.spaces.open(FINGERPRINT)
        assert (space.state, space.enabled, space.dimension) == (SpaceState.ACTIVE, True, None)
        assert (await storage.spaces.open(FINGERPRINT)).id == space.id
        prepared = await storage.spaces.prepare(space.id, vector(1))
        assert prepared.dimension == 4
        assert prepared.canary is not None
        assert prepared.canary.tolist() == [1, 0, 0, 0]

    async def test_saves_before_the_first_probe_get_jobs(self, storage: Storage) -> None:
        space = await storage.spaces.open(FINGERPRINT)
        saved = await save(storage, draft())
        assert saved.pending
        await assert_sound(storage)
        await storage.spaces.prepare(space.id, vector(1))
        assert await embed(storage, saved) == 1

    async def test_a_new_model_gets_a_separate_space(self, storage: Storage) -> None:
        old = await serving_space(storage)
        await embed(storage, await save(storage, draft()))
        new = await storage.spaces.open({**FINGERPRINT, "model": "two"})
        assert (new.state, new.id != old.id) == (SpaceState.BUILDING, True)
        await storage.spaces.prepare(new.id, vector(0, 1))
        await assert_sound(storage)
        assert await storage.spaces.backfill(new.id) == 0, "opening the space created all jobs"
        assert await storage.spaces.pending(new.id) == 1
        jobs: list[Job] = await storage.jobs.claim(9, now=START_MS, lease_until=START_MS + 1)
        assert {job.space for job in jobs} == {new.id}
        await storage.jobs.complete(jobs, vectors(vector(0, 1)))
        assert (await storage.spaces.activate(new.id)).state is SpaceState.ACTIVE
        hits = await storage.search.by_vector(new.id, vector(0, 1), ALL, 5)
        assert [round(hit.distance, 5) for hit in hits] == [0]
        assert await self.states(storage) == {old.id: SpaceState.KEPT, new.id: SpaceState.ACTIVE}
        assert (await storage.spaces.open(FINGERPRINT)).id == old.id, "nobody asked to drop it"
        assert await storage.spaces.pending(old.id) == 0
        with pytest.raises(Conflict, match="not active"):
            await storage.spaces.retire_former(old.id)
        await storage.spaces.open({**FINGERPRINT, "model": "two"})
        assert await storage.spaces.retire_former(new.id) == [old.id]
        with pytest.raises(Conflict, match="is retired"):
            await storage.spaces.activate(old.id)
        again = await storage.spaces.open(FINGERPRINT)
        assert (again.id not in (old.id, new.id), again.generation) == (True, 2), (
            "a retired space is not reused"
        )
        assert await storage.spaces.pending(again.id) == 1
        await assert_sound(storage)

    async def test_a_silently_changed_model_gets_a_new_generation(self, storage: Storage) -> None:
        old = await serving_space(storage)
        await embed(storage, await save(storage, draft()))
        renewed = await storage.spaces.renew(old.id)
        assert (renewed.generation, renewed.state, renewed.enabled) == (2, SpaceState.BUILDING, True)
        assert (await storage.spaces.open(FINGERPRINT)).id == renewed.id
        assert await storage.spaces.pending(renewed.id) == 1
        await assert_sound(storage)
        await storage.spaces.prepare(renewed.id, vector(1))
        await storage.spaces.activate(renewed.id)
        assert await self.states(storage) == {old.id: SpaceState.RETIRED, renewed.id: SpaceState.ACTIVE}
        await assert_sound(storage)

    async def test_reenabling_embedding_backfills_missing_vectors(self, storage: Storage) -> None:
        space = await serving_space(storage)
        await embed(storage, await save(storage, keyless("one")))
        await save(storage, keyless("two"))
        await storage.spaces.disable_all()
        await save(storage, keyless("three"))
        assert (await storage.jobs.depth()).pending == 0
        await assert_sound(storage)
        assert (await storage.spaces.open(FINGERPRINT)).id == space.id
        assert await storage.spaces.pending(space.id) == 2
        await assert_sound(storage)

    async def test_every_save_creates_a_job_in_each_of_two_spaces(self, storage: Storage) -> None:
        first, second = await storage.spaces.open_all([FINGERPRINT, OTHER])
        assert (first.state, second.state) == (SpaceState.ACTIVE, SpaceState.BUILDING)
        for space in (first, second):
            await storage.spaces.prepare(space.id, vector(1))
        saved = await save(storage, draft())
        assert {job.space for job in saved.jobs} == {first.id, second.id}
        for space in (first, second):
            (job,) = await storage.jobs.claim(5, now=START_MS, lease_until=START_MS + 9, space=space.id)
            assert job.space == space.id
            assert await storage.jobs.next_due(START_MS, space.id) == START_MS + 9
        await storage.jobs.release_leases(first.id)
        assert await storage.jobs.next_due(START_MS, first.id) is None
        assert await storage.jobs.next_due(START_MS, second.id) == START_MS + 9

    async def test_only_the_active_space_makes_an_entry_pending(self, storage: Storage) -> None:
        first, second = await storage.spaces.open_all([FINGERPRINT, OTHER])
        for space in (first, second):
            await storage.spaces.prepare(space.id, vector(1))
        saved = await save(storage, draft())
        (own,) = [job for job in saved.jobs if job.space == first.id]
        await storage.jobs.complete([own], vectors(vector(1)))
        entry = await storage.entries.get(saved.id)
        assert entry is not None
        assert not entry.pending
        assert (await storage.jobs.depth()).pending == 0
        backlog = await storage.spaces.total_pending(second.id)
        assert (backlog.pending, backlog.buried) == (1, 0)
        assert backlog.bytes >= len(draft().content.encode())
        await assert_sound(storage)

    async def test_a_space_can_be_switched_kept_and_retired(self, storage: Storage) -> None:
        first, second = await storage.spaces.open_all([FINGERPRINT, OTHER])
        for space in (first, second):
            await storage.spaces.prepare(space.id, vector(1))
        saved = await save(storage, draft())
        with pytest.raises(Conflict):
            await storage.spaces.activate(second.id, max_pending=0)
        for job in saved.jobs:
            await storage.jobs.complete([job], vectors(vector(1)))
        await storage.spaces.activate(second.id, max_pending=0)
        assert await self.states(storage) == {first.id: SpaceState.KEPT, second.id: SpaceState.ACTIVE}
        again = await storage.spaces.open_all([FINGERPRINT, OTHER])
        assert [space.state for space in again] == [SpaceState.KEPT, SpaceState.ACTIVE]
        await storage.spaces.activate(first.id, max_pending=0)
        assert await self.states(storage) == {first.id: SpaceState.ACTIVE, second.id: SpaceState.KEPT}
        assert await storage.spaces.retire_former(first.id) == [second.id]
        assert await storage.spaces.retire_former(first.id) == []
        assert len((await save(storage, draft("another text"))).jobs) == 1
        await assert_sound(storage)

    async def test_a_building_space_is_not_retired(self, storage: Storage) -> None:
        first, _ = await storage.spaces.open_all([FINGERPRINT, OTHER])
        assert await storage.spaces.retire_former(first.id) == []

    async def test_a_silent_model_change_leaves_other_spaces_alone(self, storage: Storage) -> None:
        first, second = await storage.spaces.open_all([FINGERPRINT, OTHER])
        renewed = await storage.spaces.renew(first.id)
        enabled = {space.id for space in await storage.spaces.all() if space.enabled}
        assert enabled == {renewed.id, second.id}

    async def test_a_space_remembers_its_approval_and_comparison(self, storage: Storage) -> None:
        space = await storage.spaces.open(FINGERPRINT)
        assert (space.approved, space.comparison) == (False, None)
        await storage.spaces.approve(space.id)
        await storage.spaces.record_comparison(space.id, {"overlap": 0.5})
        (known,) = await storage.spaces.all()
        assert (known.approved, known.comparison) == (True, {"overlap": 0.5})

    async def test_a_sample_is_spread_over_all_live_chunks(self, storage: Storage) -> None:
        saved = [await save(storage, keyless(f"text {number}")) for number in range(9)]
        await save(storage, draft("elsewhere", namespace="other"))
        assert len(await storage.search.sample_chunks(50)) == 10
        drawn = await storage.search.sample_chunks(5)
        assert [each.text for each in drawn] == [f"text {number}" for number in (0, 2, 4, 6, 8)]
        assert (drawn[0].entry, drawn[0].namespace) == (saved[0].id, "default")

    async def states(self, storage: Storage) -> dict[int, SpaceState]:
        return {space.id: space.state for space in await storage.spaces.all()}

    async def test_deleting_entries_while_a_space_is_disabled_leaves_no_vectors(
        self, storage: Storage
    ) -> None:
        await serving_space(storage)
        saved = await save(storage, draft())
        await embed(storage, saved)
        await storage.spaces.disable_all()
        await storage.entries.delete(saved.id)
        await assert_sound(storage)
