"""Changes to an entry while the provider is embedding its text."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentctx.embedding.providers.fake import FakeFault, FakeProvider
from agentctx.errors import Disposition, NotFound
from agentctx_testing.drafts import assert_sound
from tests.running_core import ME, embedded, running_core, save
from tests.wire_requests import search


async def test_a_replaced_entry_never_shows_its_old_vector(tmp_path: Path) -> None:
    provider = FakeProvider(dimension=64)
    async with running_core(tmp_path, provider) as core:
        await embedded(core)
        provider.hold(queries=False)
        saved = await save(core, key="fruit", content="red apple")
        await provider.wait_until_held()
        await save(core, key="fruit", content="steel hammer")
        provider.release()
        await embedded(core)
        near = await core.questions.search(search("red apple", order="distance"), ME)
        (hit,) = near.results
        assert (hit.id, hit.content) == (saved.id, "steel hammer")
        exact = await core.questions.search(search("fruit steel hammer", order="distance"), ME)
        assert exact.results[0].distance == pytest.approx(0, abs=1e-5)
        assert hit.distance is not None
        assert hit.distance > 0.5, "the vector of the old text would be near"
        assert core.lanes is not None
        assert core.lanes.leading.queue.status().stale == 1
        await assert_sound(core.storage)


async def test_a_deleted_entry_never_shows_its_vector(tmp_path: Path) -> None:
    provider = FakeProvider(dimension=64)
    async with running_core(tmp_path, provider) as core:
        await embedded(core)
        provider.hold(queries=False)
        gone = await save(core, key="fruit", content="red apple")
        kept = await save(core, key="tool", content="steel hammer")
        await provider.wait_until_held()
        await core.forgetting.forget(gone.id, ME)
        provider.release()
        await embedded(core)
        reply = await core.questions.search(search("red apple"), ME)
        assert [hit.id for hit in reply.results] == [kept.id]
        with pytest.raises(NotFound):
            await core.entries.get(gone.id, ME)
        census = await core.storage.upkeep.census()
        assert (census.vectors, census.violations) == (1, 0)


async def test_only_the_rejected_text_is_buried_listed_and_retried(tmp_path: Path) -> None:
    provider = FakeProvider(
        dimension=64, faults=[FakeFault.fails(Disposition.SPLIT, when=lambda text: "poison" in text)]
    )
    async with running_core(tmp_path, provider) as core:
        await embedded(core)
        for number in range(9):
            await save(core, key=f"k{number}", content=f"text {number}")
        bad = await save(core, key="bad", content="poison text")
        await embedded(core)
        queue = await core.status.queue(ME)
        assert (queue.pending, queue.buried) == (0, 1)
        (job,) = queue.buried_jobs
        assert (job.entry, job.collection) == (bad.id, "knowledge")
        assert "failed on request" in job.reason
        assert (await core.storage.upkeep.census()).vectors == 9
        words = await core.questions.search(search("poison"), ME)
        assert words.results[0].id == bad.id, "what cannot be embedded is found by its words"
        provider.faults.clear()
        assert (await core.status.retry(ME)).retried == 1
        await embedded(core)
        assert (await core.entries.get(bad.id, ME)).embedding == "done"
        await assert_sound(core.storage)


async def test_a_waiting_save_returns_once_embedded(tmp_path: Path) -> None:
    async with running_core(tmp_path, FakeProvider()) as core:
        saved = await save(core, key="k", content="red apple", wait="embedded")
        assert saved.embedding == "done"
        assert (await core.storage.upkeep.census()).vectors == 1


async def test_a_waiting_save_is_acknowledged_even_if_its_entry_is_forgotten_meanwhile(
    tmp_path: Path,
) -> None:
    provider = FakeProvider()
    async with running_core(tmp_path, provider) as core:
        await embedded(core)
        provider.hold(queries=False)
        saving = asyncio.create_task(save(core, key="k", content="red apple", wait="embedded"))
        await provider.wait_until_held()
        (entry,) = (await core.entries.list_entries(ME)).entries
        await core.forgetting.forget(entry.id, ME)
        provider.release()
        assert (await saving).id == entry.id


async def test_a_waiting_save_of_which_a_part_is_embedded_replies_that_it_is_pending(tmp_path: Path) -> None:
    provider = FakeProvider()
    queue = {"queue": {"batch_size": 1}}
    async with running_core(tmp_path, provider, embedding=queue) as core:
        await embedded(core)
        assert core.lanes is not None
        provider.hold(queries=False)
        long = "\n\n".join(f"Paragraph {number}. " * 40 for number in range(6))
        saving = asyncio.create_task(save(core, key="k", content=long, wait="embedded"))
        await provider.wait_until_held()
        provider.release()
        provider.hold(queries=False)
        await provider.wait_until_held()  # by the second part
        await core.lanes.stop(timeout=0)
        assert (await saving).embedding == "pending"
