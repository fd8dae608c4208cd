"""The wall clock jumps in both directions under a running core."""

from __future__ import annotations

from pathlib import Path

from agentctx.embedding.providers.fake import FakeFault, FakeProvider
from agentctx.errors import Disposition
from agentctx_testing.drafts import ManualClock, assert_sound
from tests.running_core import ME, embedded, running_core, save

DAY_MS = 86_400_000
YEAR_2040_MS = 2_208_988_800_000


async def test_leaps_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    clock, provider = ManualClock(), FakeProvider(dimension=16)
    async with running_core(tmp_path, provider, clock=clock) as core:
        await embedded(core)
        ids = []
        for number, leap_ms in enumerate([DAY_MS, -2 * DAY_MS, 3_600_000, -1, YEAR_2040_MS - clock.now]):
            ids.append((await save(core, "observation", session="s", content=f"note {number}")).id)
            clock.now += leap_ms
            ids.append((await save(core, key=f"k{number}", content=f"fact {number}", wait="embedded")).id)
        await embedded(core)
        assert [
            entry_id for entry_id in ids if (await core.entries.get(entry_id, ME)).embedding != "done"
        ] == []
        assert len(set(ids)) == len(ids)
        census = await core.storage.upkeep.census()
        assert census.vectors == census.chunks == len(ids)
        await assert_sound(core.storage)


async def test_a_retry_put_off_before_the_clock_went_back_is_made_in_time(tmp_path: Path) -> None:
    clock = ManualClock()
    provider = FakeProvider(dimension=16)
    async with running_core(tmp_path, provider, clock=clock) as core:
        await embedded(core)
        provider.faults = [FakeFault.fails(Disposition.RETRY, call=len(provider.calls) + 1)]
        saved = await save(core, "observation", session="s", content="late")
        assert core.lanes is not None
        await core.lanes.leading.queue.idle()
        clock.now -= 10 * DAY_MS
        clock.now += 20 * DAY_MS  # the machine was suspended: the wait is over
        await save(core, "observation", session="s", content="wakes the queue", wait="embedded")
        await embedded(core)
        assert (await core.entries.get(saved.id, ME)).embedding == "done"
        await assert_sound(core.storage)
