"""Two models in one daemon: one answers while the next is built, then switched to, rolled back or retired."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest

from agentctx.daemon.build import Core
from agentctx.embedding.providers.fake import FakeFault, FakeProvider
from agentctx.embedding.providers.prices import Price
from agentctx.embedding.providers.spending import Spending
from agentctx.embedding.queue.lane import Lane
from agentctx.embedding.queue.lanes import Lanes, to_open
from agentctx.errors import Conflict, Disposition, NotFound
from agentctx.storage.records import Space, SpaceState
from agentctx.wire import ReembedReply
from agentctx_testing.drafts import assert_sound
from tests.embedding.queue.test_space_builder import ChangedProvider
from tests.running_core import ME, running_core, save
from tests.wire_requests import search

AUTO: dict[str, Any] = {"next": {"switch": "auto"}}
FRUIT = ("red apple", "green pear", "yellow lemon", "blue plum")


def old_model(**options: Any) -> FakeProvider:
    return FakeProvider(model="old", **options)


def new_model(**options: Any) -> FakeProvider:
    return FakeProvider(model="new", **options)


def lanes_of(core: Core) -> Lanes:
    assert core.lanes is not None
    return core.lanes


async def save_fruit(core: Core, wait: Literal["embedded"] | None = None) -> None:
    for text in FRUIT:
        await save(core, key=text, content=text, wait=wait)


async def wait_for_stage(core: Core, stage: str) -> None:
    """Poll the stage: nothing announces a change."""
    async with asyncio.timeout(20):
        while (await core.reembed.reembed_status(ME)).stage != stage:
            await core.storage.jobs.depth()


async def wait_until_answering(core: Core, model: str) -> None:
    assert core.lanes is not None
    async with asyncio.timeout(20):
        while core.lanes.leading.provider.model != model or core.lanes.leading.builder.searched is None:
            await core.storage.jobs.depth()


async def wait_until_embedded(core: Core, lane: Lane) -> None:
    async with asyncio.timeout(20):
        while await core.storage.spaces.pending(lane.space):
            await core.storage.jobs.depth()


def embedded_questions(provider: FakeProvider) -> list[str]:
    return [call.texts[0] for call in provider.calls if call.query]


async def test_the_active_model_answers_while_the_next_one_is_built(tmp_path: Path) -> None:
    old, new = old_model(), new_model()
    new.hold(queries=False)
    async with running_core(tmp_path, old, next_provider=new) as core:
        await wait_until_answering(core, "old")
        saved = await save(core, key="k", content="red apple", wait="embedded")
        assert saved.embedding == "done", "saves do not wait for the next model"
        answer = await core.questions.search(search("apple of what"), ME)
        assert answer.degraded is None
        assert embedded_questions(old) == ["apple of what"]
        assert embedded_questions(new) == []
        assert (await core.storage.jobs.depth()).pending == 0
        assert (await core.reembed.reembed_status(ME)).stage == "building"
        with pytest.raises(Conflict, match="cannot answer yet"):
            await core.reembed.reembed("switch", ME)
        new.release()
        await wait_for_stage(core, "ready")
        await assert_sound(core.storage)


async def test_switch_and_rollback_are_immediate_and_complete(tmp_path: Path) -> None:
    old, new = old_model(), new_model()
    new.hold(queries=False)
    async with running_core(tmp_path, old, next_provider=new) as core:
        await wait_until_answering(core, "old")
        # Only vectors in both spaces are compared, and the new model may finish first.
        await save_fruit(core, wait="embedded")
        new.release()
        await wait_for_stage(core, "ready")
        compared = (await core.reembed.reembed_status(ME)).comparison
        assert compared is not None
        assert (compared.sampled, compared.self_retrieval) == (4, 1.0)
        assert compared.overlap == 1.0, "all four texts have the same three neighbours"
        assert (await core.reembed.reembed("switch", ME)).stage == "kept"
        await core.questions.search(search("which lemon"), ME)
        assert embedded_questions(new)[-1] == "which lemon"
        with pytest.raises(Conflict, match="already"):
            await core.reembed.reembed("switch", ME)
        await save(core, key="later", content="orange orange", wait="embedded")
        kept = lanes_of(core).other
        assert kept is not None
        await wait_until_embedded(core, kept)
        reply = await core.reembed.reembed("rollback", ME)
        assert reply.answering is not None
        assert reply.answering.model == "old"
        answer = await core.questions.search(search("orange orange"), ME)
        assert embedded_questions(old)[-1] == "orange orange"
        assert answer.results[0].distance is not None, "the kept space embedded the later save, too"
        with pytest.raises(Conflict, match="answers already"):
            await core.reembed.reembed("rollback", ME)
        assert embedded_questions(old)[-1] == "orange orange"
        reply = await core.reembed.reembed("switch", ME)
        assert reply.answering is not None
        assert reply.answering.model == "new"
        await assert_sound(core.storage)


async def test_there_is_no_switch_to_a_model_that_cannot_be_reached_now(tmp_path: Path) -> None:
    new = new_model()
    async with running_core(tmp_path, old_model(), next_provider=new) as core:
        await save_fruit(core, wait="embedded")
        await wait_for_stage(core, "ready")
        new.faults = [FakeFault.fails(Disposition.RETRY)]
        with pytest.raises(Conflict, match="cannot answer now"):
            await core.reembed.reembed("switch", ME)
        assert lanes_of(core).leading.provider.model == "old"
        new.faults = []
        await core.reembed.reembed("switch", ME)


def models_in(reply: ReembedReply) -> list[str]:
    return [each.model for each in (reply.answering, reply.beside, *reply.former) if each]


async def moved_to_new(folder: Path) -> None:
    """Leave a database in which the new model answers and the old one is kept."""
    async with running_core(folder, old_model(), next_provider=new_model()) as core:
        await save_fruit(core)
        await wait_for_stage(core, "ready")
        await core.reembed.reembed("switch", ME)


async def test_a_start_with_the_old_model_drops_nothing(tmp_path: Path) -> None:
    await moved_to_new(tmp_path)
    async with running_core(tmp_path, new_model()) as core:
        await save(core, key="later", content="orange", wait="embedded")
    old = old_model()
    old.hold(queries=False)
    async with running_core(tmp_path, old) as core:
        reply = await core.reembed.reembed_status(ME)
        assert models_in(reply) == ["old", "new"]
        assert "name fake new in [embedding] again and restart" in (reply.advice or "")
        with pytest.raises(Conflict, match="not active"):
            await core.reembed.reembed("retire", ME)
        assert (await save(core, key="meanwhile", content="cherry", wait=None)).embedding == "pending"
        old.release()
        await wait_until_answering(core, "old")
        assert (await core.questions.search(search("orange"), ME)).degraded is None
        assert (await core.reembed.reembed_status(ME)).stage == "kept"
        await assert_sound(core.storage)
    again = new_model()
    async with running_core(tmp_path, again) as core:
        await wait_until_answering(core, "new")
        assert [call.texts for call in again.calls[1:]] == [("meanwhile\ncherry",)], (
            "the rest was still there"
        )
        assert "`agentctx reembed --retire` drops the vectors of fake old" in (
            (await core.reembed.reembed_status(ME)).advice or ""
        )
        assert (await core.reembed.reembed("retire", ME)).stage == "off"
        await assert_sound(core.storage)


async def test_the_advice_works_in_every_state(tmp_path: Path) -> None:
    """Follow the advice literally, from a model beside the answering one to a single model."""

    async def advice(core: Core) -> str:
        reply = await core.reembed.reembed_status(ME)
        assert len(models_in(reply)) == len(set(models_in(reply)))
        return reply.advice or ""

    async with running_core(tmp_path, old_model(), next_provider=new_model()) as core:
        await save_fruit(core, wait="embedded")
        await wait_for_stage(core, "ready")
        assert "--switch" in await advice(core)
        await core.reembed.reembed("switch", ME)
        assert "--rollback` returns to fake old" in await advice(core)
        await core.reembed.reembed("rollback", ME)
        assert "--switch` returns to it" in await advice(core)
        await core.reembed.reembed("switch", ME)
        await core.reembed.reembed("rollback", ME)
        assert "--retire` drops the vectors of fake new" in await advice(core)
        await core.reembed.reembed("retire", ME)
        assert "remove [embedding.next]" in await advice(core)
    async with running_core(tmp_path, old_model()) as core:
        await wait_until_answering(core, "old")
        assert await advice(core) == ""
    async with running_core(tmp_path, old_model(), next_provider=new_model()) as core:
        await wait_for_stage(core, "ready")
        await core.reembed.reembed("switch", ME)
        assert "move the model of [embedding.next] into [embedding]" in await advice(core)
    async with running_core(tmp_path, new_model()) as core:
        await wait_until_answering(core, "new")
        assert "to return to it, name it in [embedding.next] and restart" in await advice(core)
    async with running_core(tmp_path, new_model(), next_provider=old_model()) as core:
        await wait_until_answering(core, "new")
        lane = lanes_of(core).other
        assert lane is not None
        await lane.builder.served()
        assert "--switch` returns to it" in await advice(core)
        reply = await core.reembed.reembed("switch", ME)
        assert reply.answering is not None
        assert reply.answering.model == "old"
        await assert_sound(core.storage)


async def test_several_former_models_are_named_and_dropped_together(tmp_path: Path) -> None:
    for model in ("old", "new"):
        async with running_core(tmp_path, FakeProvider(model=model)) as core:
            await save_fruit(core)
            await wait_until_answering(core, model)
    async with running_core(tmp_path, FakeProvider(model="third")) as core:
        await wait_until_answering(core, "third")
        reply = await core.reembed.reembed_status(ME)
        assert models_in(reply) == ["third", "new", "old"]
        assert models_in(await core.reembed.reembed("retire", ME)) == ["third"]
        await assert_sound(core.storage)


async def test_a_switch_survives_a_restart_with_either_config(tmp_path: Path) -> None:
    async with running_core(tmp_path, old_model(), next_provider=new_model()) as core:
        await save_fruit(core)
        await wait_for_stage(core, "ready")
        await core.reembed.reembed("switch", ME)
        switched = lanes_of(core).leading.space
    async with running_core(tmp_path, old_model(), next_provider=new_model()) as core:
        await wait_until_answering(core, "new")
        assert lanes_of(core).leading.space == switched
        assert "move the model" in ((await core.reembed.reembed_status(ME)).advice or "")
    provider = new_model()
    async with running_core(tmp_path, provider) as core:
        await wait_until_answering(core, "new")
        assert lanes_of(core).leading.space == switched
        assert len(provider.calls) == 1, "only the canary was sent: nothing is embedded again"
        assert (await core.reembed.reembed_status(ME)).stage == "kept"
        with pytest.raises(NotFound):
            await core.reembed.reembed("rollback", ME)
        assert (await core.reembed.reembed("retire", ME)).stage == "off"
        await assert_sound(core.storage)


async def test_a_retired_model_is_not_built_again(tmp_path: Path) -> None:
    async with running_core(tmp_path, old_model(), next_provider=new_model()) as core:
        await save_fruit(core)
        await wait_for_stage(core, "ready")
        with pytest.raises(NotFound):
            await core.reembed.reembed("retire", ME)
        await core.reembed.reembed("switch", ME)
        assert (await core.reembed.reembed("retire", ME)).stage == "off"
        assert (await save(core, key="later", content="text", wait="embedded")).embedding == "done"
        await assert_sound(core.storage)
    old = old_model()
    async with running_core(tmp_path, old, next_provider=new_model()) as core:
        await wait_until_answering(core, "new")
        assert old.calls == []
        await assert_sound(core.storage)


async def test_a_failing_next_model_does_not_affect_the_active_one(tmp_path: Path) -> None:
    new = new_model(faults=[FakeFault.fails(Disposition.STOP)])
    async with running_core(tmp_path, old_model(), next_provider=new) as core:
        await wait_until_answering(core, "old")
        assert (await save(core, key="k", content="red apple", wait="embedded")).embedding == "done"
        assert (await core.questions.search(search("apple"), ME)).degraded is None
        assert core.status.degraded() == {}


async def test_auto_switches_when_everything_is_embedded(tmp_path: Path) -> None:
    async with running_core(tmp_path, old_model(), next_provider=new_model(), embedding=AUTO) as core:
        await save_fruit(core)
        await wait_until_answering(core, "new")
        assert (await core.reembed.reembed_status(ME)).stage == "kept"


async def test_auto_does_not_switch_to_a_model_that_cannot_find_its_texts(tmp_path: Path) -> None:
    class BlindProvider(FakeProvider):
        @property
        def fingerprint(self) -> dict[str, str | int]:
            return {**super().fingerprint, "query_prefix": "x"}

        def _vector(self, text: str) -> Any:
            # A question is never near its stored text.
            return super()._vector("x" if self.calls[-1].query else f"y{text}")

    async with running_core(
        tmp_path, old_model(), next_provider=BlindProvider(model="new"), embedding=AUTO
    ) as core:
        await save_fruit(core)
        await wait_for_stage(core, "ready")
        compared = (await core.reembed.reembed_status(ME)).comparison
        assert compared is not None
        assert compared.self_retrieval < 0.8
        assert lanes_of(core).leading.provider.model == "old"


async def test_an_expensive_model_waits_for_approval(tmp_path: Path) -> None:
    new = new_model()
    async with running_core(tmp_path, old_model()) as core:
        await save_fruit(core)
        await wait_until_answering(core, "old")
    async with running_core(tmp_path, old_model(), next_provider=new) as core:
        lane = lanes_of(core).other
        assert lane is not None
        lane.spending = Spending(Price(1_000_000.0, "dear"), clock=lambda: 0)
        await wait_for_stage(core, "held")
        assert len(new.calls) == 1, "only the canary was sent"
        reply = await core.reembed.reembed_status(ME)
        assert reply.cost is not None
        assert reply.cost.usd is not None
        assert reply.cost.usd > reply.cost.confirm_usd
        await core.reembed.reembed("approve", ME)
        await wait_for_stage(core, "ready")
        (space,) = await lanes_of(core).other_spaces()
        assert space.approved


async def test_a_silently_changed_active_model_leaves_the_next_one_alone(tmp_path: Path) -> None:
    async with running_core(tmp_path, FakeProvider(), next_provider=new_model()) as core:
        await save_fruit(core)
        await wait_for_stage(core, "ready")
        before = lanes_of(core).leading.space
        beside = lanes_of(core).other
    changed, new = ChangedProvider(), new_model()
    changed.hold(queries=False)
    async with running_core(tmp_path, changed, next_provider=new) as core:
        assert (await core.questions.search(search("apple"), ME)).degraded is not None
        changed.release()
        await wait_until_answering(core, "bag-of-words")
        assert lanes_of(core).leading.space != before
        other = lanes_of(core).other
        assert other is not None
        assert beside is not None
        assert other.space == beside.space
        assert all(call.texts[0].startswith("agentctx") for call in new.calls if not call.query)
        answer = await core.questions.search(search("red apple"), ME)
        assert answer.results[0].distance is not None
        assert answer.results[0].distance < 0.5
        await assert_sound(core.storage)


async def test_questions_during_switches_search_the_space_of_their_model(tmp_path: Path) -> None:
    old, new = old_model(), new_model()
    async with running_core(tmp_path, old, next_provider=new) as core:
        await save_fruit(core)
        await wait_for_stage(core, "ready")
        own = {lane.provider.model: lane.space for lane in lanes_of(core)}
        asked: list[tuple[str, int]] = []
        for provider in (old, new):
            _record_searches(core, provider, asked)

        async def ask_repeatedly() -> None:
            for number in range(60):
                await core.questions.search(search(f"red apple {number}"), ME)

        asking = [asyncio.create_task(ask_repeatedly()) for _ in range(4)]
        while not all(task.done() for task in asking):
            with suppress(Conflict):
                await core.reembed.reembed("rollback", ME)
            with suppress(Conflict):
                await core.reembed.reembed("switch", ME)
            await core.storage.jobs.depth()
        await asyncio.gather(*asking)
        assert {space for _, space in asked} == set(own.values()), "both models answered"
        assert [each for each in asked if own[each[0]] != each[1]] == []


def _record_searches(core: Core, provider: FakeProvider, asked: list[tuple[str, int]]) -> None:
    """Record which model's vector is searched for in which space."""
    made: set[bytes] = set()
    embed_query, follow = provider.embed_query, core.storage.search.follow

    async def embed_and_record(text: str) -> Any:
        vector = await embed_query(text)
        made.add(vector.tobytes())
        return vector

    async def follow_and_record(begin: Any, space: int | None) -> Any:
        (known,) = begin.args
        if space is not None and known.query.tobytes() in made:
            asked.append((provider.model, space))
        return await follow(begin, space)

    provider.embed_query = embed_and_record  # type: ignore[method-assign]  # recorded
    core.storage.search.follow = follow_and_record  # type: ignore[method-assign,assignment]  # recorded


def _space(number: int, model: str, state: SpaceState) -> Space:
    return Space(
        id=number,
        fingerprint={"model": model},
        generation=1,
        state=state,
        enabled=state is not SpaceState.RETIRED,
        dimension=None,
        canary=None,
    )


@pytest.mark.parametrize(
    ("fingerprints", "spaces", "expected"),
    [
        ("a", [], [0]),
        ("ab", [], [0, 1]),
        ("aa", [], [0]),
        ("ab", [("a", SpaceState.ACTIVE)], [0, 1]),
        ("ab", [("b", SpaceState.ACTIVE), ("a", SpaceState.KEPT)], [0, 1]),
        ("ab", [("b", SpaceState.ACTIVE), ("a", SpaceState.RETIRED)], [1]),
        ("ab", [("b", SpaceState.ACTIVE)], [1]),
        ("ba", [("b", SpaceState.ACTIVE), ("a", SpaceState.RETIRED)], [0, 1]),
    ],
)
def test_a_model_retired_in_favour_of_the_next_gets_no_lane(
    fingerprints: str, spaces: list[tuple[str, SpaceState]], expected: list[int]
) -> None:
    known = [_space(number, *each) for number, each in enumerate(spaces)]
    assert to_open([{"model": model} for model in fingerprints], known) == expected
