"""The space builder with the real storage and queue."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentctx.daemon.build import Core
from agentctx.embedding.providers.canary import CANARY
from agentctx.embedding.providers.fake import FakeFault, FakeProvider
from agentctx.embedding.queue.space_builder import FILLING, SpaceBuilder
from agentctx.embedding.queue.status import QueueStatus
from agentctx.errors import DeadlineExceeded, Disposition
from agentctx.storage.records import SpaceState
from agentctx.storage.spaces import SpaceStorage
from agentctx.storage.vectors import Vectors
from agentctx_testing.drafts import assert_sound
from tests.embedding.queue.manual_timer import ManualTimer
from tests.running_core import ME, embedded, running_core, save
from tests.wire_requests import search


async def wait_until_served(core: Core) -> int:
    assert core.lanes is not None
    await core.lanes.leading.builder.served()
    await embedded(core)
    assert core.lanes.leading.builder.searched is not None
    return core.lanes.leading.builder.searched


async def test_the_first_model_is_searched_once_it_has_answered(tmp_path: Path) -> None:
    provider = FakeProvider()
    async with running_core(tmp_path, provider) as core:
        space = await wait_until_served(core)
        assert provider.calls[0].texts == (CANARY,)
        found = await core.storage.spaces.open({**provider.fingerprint, "template": "header-newline-chunk/1"})
        assert (found.id, found.state, found.dimension) == (space, SpaceState.ACTIVE, provider.dimension)


async def test_entries_saved_before_the_model_answered_are_embedded(tmp_path: Path) -> None:
    provider = FakeProvider()
    provider.hold()
    async with running_core(tmp_path, provider) as core:
        saved = await save(core, key="k", content="red apple")
        assert saved.embedding == "pending"
        assert core.lanes is not None
        assert core.lanes.leading.builder.state == "starting"
        provider.release()
        await embedded(core)
        assert (await core.entries.get(saved.id, ME)).embedding == "done"
        await assert_sound(core.storage)


async def test_switching_embedding_on_embeds_existing_entries(tmp_path: Path) -> None:
    async with running_core(tmp_path, None) as core:
        saved = await save(core, key="k", content="red apple")
        assert saved.embedding == "off"
    async with running_core(tmp_path, FakeProvider()) as core:
        await embedded(core)
        assert (await core.entries.get(saved.id, ME)).embedding == "done"
        await assert_sound(core.storage)


async def test_another_model_reembeds_everything_before_it_is_searched(tmp_path: Path) -> None:
    async with running_core(tmp_path, FakeProvider(model="one")) as core:
        await save(core, key="k", content="red apple")
        old = await wait_until_served(core)
    provider = FakeProvider(model="two", dimension=16)
    provider.hold(queries=False)
    async with running_core(tmp_path, provider) as core:
        answer = await core.questions.search(search("red"), ME)
        assert len(answer.results) == 1
        assert answer.degraded == "the model has not answered yet"
        provider.release()
        new = await wait_until_served(core)
        assert new != old
        answer = await core.questions.search(search("red"), ME)
        assert answer.degraded is None
        assert answer.results[0].distance is not None
        await assert_sound(core.storage)


class ChangedProvider(FakeProvider):
    """The same fingerprint but other vectors: a model that was changed silently."""

    async def embed(self, texts: object) -> Vectors:
        reply: Vectors = np.ascontiguousarray((await super().embed(texts))[:, ::-1])  # type: ignore[arg-type]  # passed through
        return reply

    async def embed_query(self, text: str) -> Vectors:
        return np.ascontiguousarray((await super().embed_query(text))[::-1])


async def test_a_silently_changed_model_gets_a_new_space(tmp_path: Path) -> None:
    async with running_core(tmp_path, FakeProvider()) as core:
        await save(core, key="k", content="red apple")
        old = await wait_until_served(core)
    async with running_core(tmp_path, ChangedProvider()) as core:
        new = await wait_until_served(core)
        assert new != old
        answer = await core.questions.search(search("red apple"), ME)
        assert answer.results[0].distance is not None
        assert answer.results[0].distance < 0.5, "question and passage come from the same model"
        await assert_sound(core.storage)


async def test_an_unchanged_model_is_not_embedded_again(tmp_path: Path) -> None:
    async with running_core(tmp_path, FakeProvider()) as core:
        await save(core, key="k", content="red apple")
        old = await wait_until_served(core)
    provider = FakeProvider()
    async with running_core(tmp_path, provider) as core:
        assert await wait_until_served(core) == old
        assert [call.texts for call in provider.calls] == [(CANARY,)]


class RecordingLane:
    """A lane that only records whether it is paused."""

    def __init__(self) -> None:
        self.is_held = False
        self.problem: str | None = None
        self.resumed = asyncio.Event()

    def pause(self, reason: str) -> None:
        self.is_held = True

    def resume(self) -> None:
        self.is_held = False
        self.resumed.set()

    def recheck_table(self) -> None: ...

    async def idle(self) -> None: ...

    def status(self) -> QueueStatus:
        return QueueStatus(
            state="degraded" if self.problem else "ok",
            reason=self.problem,
            embedded=0,
            buried=0,
            stale=0,
        )


async def test_a_provider_that_is_down_is_probed_until_it_answers(tmp_path: Path) -> None:
    provider = FakeProvider(faults=[FakeFault.fails(Disposition.STOP)])
    async with running_core(tmp_path, None) as core:
        timer = ManualTimer()
        lane = RecordingLane()
        builder = SpaceBuilder(core.storage, provider, lane, timer=timer)
        await builder.open()
        running = asyncio.ensure_future(builder.run())
        await timer.until(lambda: len(provider.calls) >= 5)
        assert builder.searched is None
        assert builder.reason is not None
        assert builder.reason.startswith("provider_failed")
        assert lane.is_held
        provider.faults.clear()
        while not running.done():
            await timer.advance(120_000)
            await core.storage.jobs.depth()
        await builder.served()
        assert builder.state == "ok"


async def test_the_reason_is_the_problem_that_stops_the_embedding(tmp_path: Path) -> None:
    async with running_core(tmp_path, FakeProvider()) as core:
        await save(core, key="k", content="red apple")
        await wait_until_served(core)
        lane, provider = RecordingLane(), FakeProvider(model="other")
        builder = SpaceBuilder(core.storage, provider, lane, timer=ManualTimer(), leads=lambda: False)
        await builder.open()
        running = asyncio.ensure_future(builder.run())
        await lane.resumed.wait()
        assert builder.reason == FILLING
        lane.problem = "provider_failed: 401"
        assert builder.reason == lane.problem
        running.cancel()


class SlowSpaces:
    """Spaces whose first `pending` times out."""

    def __init__(self, spaces: SpaceStorage) -> None:
        self._spaces = spaces
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spaces, name)

    async def pending(self, space_id: int) -> int:
        self.calls += 1
        if self.calls == 1:
            raise DeadlineExceeded("the database did not answer in time")
        return await self._spaces.pending(space_id)


async def test_a_database_timeout_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_core(tmp_path, FakeProvider()) as core:
        await wait_until_served(core)
        timer, slow = ManualTimer(), SlowSpaces(core.storage.spaces)
        monkeypatch.setattr(core.storage, "spaces", slow)
        builder = SpaceBuilder(core.storage, FakeProvider(model="other"), RecordingLane(), timer=timer)
        await builder.open()
        running = asyncio.ensure_future(builder.run())
        while not running.done():
            await timer.advance(120_000)
            await core.storage.jobs.depth()
        await running
        assert (slow.calls, builder.state) == (2, "ok")
