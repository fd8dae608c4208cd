"""Receipts and explanations of the daemon's service, on real storage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentctx.daemon.build import Core
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.errors import NotFound, TooLarge
from agentctx.wire import (
    ContextReply,
    ContextRequest,
    EditRequest,
    ExplainReply,
    ExplainRequest,
    InjectionView,
)
from agentctx_testing.drafts import ManualClock
from tests.running_core import ME, embedded, running_core, save


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def provider() -> FakeProvider:
    return FakeProvider(dimension=64)


@pytest.fixture
async def core(tmp_path: Path, clock: ManualClock, provider: FakeProvider) -> AsyncIterator[Core]:
    async with running_core(tmp_path, provider, clock=clock, injection={"eagerness": "normal"}) as running:
        yield running


async def inject(core: Core, query: str, **fields: Any) -> ContextReply:
    request = ContextRequest(query=query, **{"position": "tail", **fields})
    return await core.questions.context(request, ME)


async def receipt_of(core: Core, reply: ContextReply) -> InjectionView:
    assert reply.injection_id is not None
    return await core.injections.injection(reply.injection_id, ME)


async def explain(core: Core, entry: str, query: str, **fields: Any) -> ExplainReply:
    return await core.injections.explain(ExplainRequest(entry=entry, query=query, **fields), ME)


async def test_an_injection_has_a_receipt_with_figures(core: Core) -> None:
    saved = await save(core, key="colour", content="red apple")
    far = await save(core, key="far", content="red and many other words that lead far away from it all")
    await embedded(core)
    reply = await inject(core, "red apple", session="s", agent="planner-less")
    assert reply.injection_id is not None
    reply = await inject(core, "red apple", session="s")
    view = await receipt_of(core, reply)
    assert (view.position, view.session, view.agent, view.principal) == ("tail", "s", None, ME.uid)
    assert (view.injected, view.fates) == (1, {"injected": 1, "relevance": 1})
    assert view.tokens == reply.tokens > 0
    assert view.block_hash is not None
    assert view.gate is not None
    first, second = view.candidates
    assert (first.entry, first.source_id, first.fate) == (saved.id, "colour", "injected")
    assert (second.entry, second.fate) == (far.id, "relevance")
    assert first.distance is not None
    assert first.word_score is not None


async def test_an_empty_injection_has_a_receipt_too(core: Core) -> None:
    await save(core, key="k", content="red apple")
    await embedded(core)
    view = await receipt_of(core, await inject(core, "zebra"))
    assert (view.injected, view.tokens, view.block_hash) == (0, 0, None)
    assert view.fates == {"relevance": 1}


async def test_a_context_without_a_position_has_no_receipt(core: Core) -> None:
    reply = await core.questions.context(ContextRequest(query="red"), ME)
    assert reply.injection_id is None
    assert (await core.injections.injections(ME, limit=5)).injections == []


async def test_the_latest_receipts_come_first(core: Core) -> None:
    ids = [(await inject(core, f"red {number}")).injection_id for number in range(3)]
    await core.receipts.flush()
    ids.append((await inject(core, "red")).injection_id)
    assert [each.id for each in (await core.injections.injections(ME, limit=3)).injections] == ids[:0:-1]


async def test_a_receipt_is_stored_and_removed_when_it_expires(core: Core, clock: ManualClock) -> None:
    reply = await inject(core, "red")
    await core.receipts.flush()
    assert (await receipt_of(core, reply)).id == reply.injection_id
    clock.now += 8 * 86_400_000
    assert await core.receipts.sweep() == 1
    with pytest.raises(NotFound):
        await receipt_of(core, reply)


async def test_the_question_is_stored_only_if_configured(core: Core, tmp_path: Path) -> None:
    view = await receipt_of(core, await inject(core, "my secret question"))
    again = await receipt_of(core, await inject(core, "my secret question"))
    assert view.question is None
    assert view.question_hash == again.question_hash
    await core.receipts.flush()
    assert not any(b"my secret" in path.read_bytes() for path in _copies(tmp_path))
    async with running_core(
        tmp_path / "storing", FakeProvider(), injection={"store_prompts": True}
    ) as storing:
        assert (await receipt_of(storing, await inject(storing, "my question"))).question == "my question"


def _copies(folder: Path) -> list[Path]:
    """Link the database's files: opening them by their own names would drop the daemon's locks."""
    copies = []
    for path in folder.glob("agentctx.db*"):
        copy = folder / f"copy-of-{path.name}"
        with suppress(FileNotFoundError):  # the database is closed at times, and then has no WAL
            copy.hardlink_to(path)
            copies.append(copy)
    return copies


async def test_after_a_forget_the_receipt_keeps_ids_and_figures(core: Core) -> None:
    saved = await save(core, key="colour", content="red apple")
    await embedded(core)
    reply = await inject(core, "red apple")
    await core.receipts.flush()
    await core.forgetting.forget(saved.id, ME)
    (candidate,) = (await receipt_of(core, reply)).candidates
    assert (candidate.entry, candidate.source_id, candidate.collection) == (saved.id, None, None)


async def test_rag_switched_off_is_reported_in_the_receipt(tmp_path: Path) -> None:
    off = {"provider": "none", "rag": {"enabled": False}}
    async with running_core(tmp_path, None, embedding=off) as core:
        await save(core, key="k", content="red apple")
        view = await receipt_of(core, await inject(core, "red apple"))
    assert (view.degraded, view.injected) == ("off: embedding.rag.enabled is false", 0)


async def test_the_size_of_a_conversation_is_limited(tmp_path: Path) -> None:
    async with running_core(tmp_path, None, limits={"max_present_chars": 10}) as core:
        await inject(core, "red", present=["12345", "67890"])
        with pytest.raises(TooLarge, match="have 11 characters; the limit is 10"):
            await inject(core, "red", present=["12345", "678901"])


class TestExplain:
    async def test_an_injected_entry_is_explained_by_its_ranks(self, core: Core) -> None:
        saved = await save(core, key="k", content="red apple")
        await embedded(core)
        reply = await explain(core, saved.id, "red apple")
        assert (reply.verdict, reply.word_rank, reply.distance_rank, reply.fused_rank) == (
            "injected",
            1,
            1,
            1,
        )
        assert (reply.words_matched, reply.words_wanted) == (2, 2)
        assert (await core.injections.injections(ME, limit=5)).injections == [], (
            "explanations make no receipt"
        )

    async def test_a_forgotten_entry_is_explained_as_not_found(self, core: Core) -> None:
        saved = await save(core, key="k", content="red apple")
        await core.forgetting.forget(saved.id, ME)
        assert (await explain(core, saved.id, "red")).verdict == "not_found"

    async def test_an_expired_entry_is_explained_as_expired(self, core: Core, clock: ManualClock) -> None:
        saved = await save(core, key="k", content="red apple", ttl="1m")
        clock.now += 60_000
        assert (await explain(core, saved.id, "red")).verdict == "expired"

    async def test_the_namespace_of_an_entry_elsewhere_is_named(self, core: Core) -> None:
        saved = await save(core, key="k", content="red apple", namespace="team")
        reply = await explain(core, saved.id, "red")
        assert reply.verdict == "namespace"
        assert "'team'" in reply.message

    @pytest.mark.parametrize(
        ("narrowed", "message"),
        [
            ({"collections": ["learning"]}, "it is in knowledge"),
            ({"agent": "planner"}, "the agent 'planner'"),
            ({"category": "rule"}, "the category 'rule'"),
            ({"tags": ["x", "y"]}, "the tag 'y'"),
            ({"until": "1d"}, "older entries"),
        ],
    )
    async def test_the_filter_that_excludes_an_entry_is_named(
        self, core: Core, narrowed: Any, message: str
    ) -> None:
        saved = await save(core, key="k", content="red apple", tags=["x"])
        reply = await explain(core, saved.id, "red", **narrowed)
        assert reply.verdict == "filter"
        assert message in reply.message

    async def test_the_session_of_an_excluded_entry_is_named(self, core: Core) -> None:
        saved = await save(core, "observation", session="one", content="red apple")
        reply = await explain(core, saved.id, "red", session="two")
        assert (reply.verdict, "it belongs to 'one'" in reply.message) == ("filter", True)

    async def test_an_entry_older_than_the_question_allows_is_explained(
        self, core: Core, clock: ManualClock
    ) -> None:
        saved = await save(core, key="k", content="red apple")
        clock.now += 2 * 86_400_000
        assert (await explain(core, saved.id, "red", since="1d")).message.endswith("newer entries")

    async def test_an_entry_may_be_trusted_at_the_tail_but_not_in_a_system_prompt(self, core: Core) -> None:
        saved = await save(core, key="k", content="red apple", origin="document")
        await embedded(core)
        assert (await explain(core, saved.id, "red", position="system")).verdict == "trust"
        assert (await explain(core, saved.id, "red apple", position="tail")).verdict == "injected"

    async def test_a_missing_vector_is_explained(self, core: Core, provider: FakeProvider) -> None:
        await embedded(core)
        provider.hold(queries=False)
        saved = await save(core, key="k", content="red apple")
        assert (await explain(core, saved.id, "zebra")).verdict == "no_vector"
        provider.release()

    async def test_an_entry_with_none_of_the_words_is_explained_as_no_match(self, tmp_path: Path) -> None:
        async with running_core(tmp_path, None) as core:
            saved = await save(core, key="k", content="red apple")
            reply = await explain(core, saved.id, "zebra")
        assert reply.verdict == "no_match"
        assert reply.degraded is not None

    async def test_an_entry_below_the_relevance_floor_is_explained_with_the_gate(self, core: Core) -> None:
        saved = await save(core, key="k", content="red apple")
        await embedded(core)
        reply = await explain(core, saved.id, "zebra quagga")
        assert reply.verdict == "relevance"
        assert reply.gate is not None
        assert "the model is not calibrated, so words decide" in reply.message

    async def test_an_entry_beyond_the_limit_has_its_word_rank(self, core: Core) -> None:
        for number in range(60):
            await save(core, key=f"k{number}", content=f"red {number}")
        saved = await save(core, key="k", content="red and many other words which lead away")
        await embedded(core)
        reply = await explain(core, saved.id, "red", max_distance=0.0)
        assert reply.verdict in {"limit", "relevance"}
        assert reply.word_rank is not None
        assert reply.word_rank > 40

    @pytest.mark.parametrize("query", ["thanks", "what is it?", "👍", "go on", "/clear", "x = 1;", "red"])
    async def test_a_text_is_explained_as_no_question_if_nothing_is_looked_up(
        self, core: Core, query: str
    ) -> None:
        saved = await save(core, key="k", content="red apple")
        await embedded(core)
        looked_up = (await receipt_of(core, await inject(core, query))).fates != {}
        reply = await explain(core, saved.id, query)
        assert (reply.verdict != "no_question") is looked_up
        assert ("nothing is looked up" in reply.message) is not looked_up
        assert (await explain(core, saved.id, query, all=True)).verdict != "no_question"

    async def test_nothing_is_looked_up_while_context_is_off(self, tmp_path: Path) -> None:
        rag = {"rag": {"enabled": False}}
        async with running_core(tmp_path, FakeProvider(dimension=64), embedding=rag) as off:
            saved = await save(off, key="k", content="red apple")
            assert (await explain(off, saved.id, "red apple")).verdict == "off"

    async def test_an_entry_already_in_the_conversation_is_explained_as_present(self, core: Core) -> None:
        saved = await save(core, key="k", content="red apple")
        await embedded(core)
        assert (await explain(core, saved.id, "red apple", present=["red apple"])).verdict == "present"

    async def test_a_duplicate_names_the_injected_entry(self, core: Core) -> None:
        pair = [await save(core, key=key, content="red apple") for key in ("one", "two")]
        await embedded(core)
        verdicts = {saved.id: await explain(core, saved.id, "red apple") for saved in pair}
        (injected,) = (entry for entry, reply in verdicts.items() if reply.verdict == "injected")
        (other,) = (reply for reply in verdicts.values() if reply.verdict == "duplicate")
        assert injected in other.message


async def test_a_conversation_gets_each_text_once(core: Core) -> None:
    saved = await save(core, key="colour", content="red apple")
    await embedded(core)
    first = await inject(core, "red apple", conversation="c1")
    again = await inject(core, "red apple", conversation="c1")
    other = await inject(core, "red apple", conversation="c2")
    assert [bool(each.block) for each in (first, again, other)] == [True, False, True]
    assert (await receipt_of(core, again)).fates == {"present": 1}

    await core.entries.edit(saved.id, EditRequest(content="red apple, green leaf"), ME)
    await embedded(core)
    changed = await inject(core, "red apple green leaf", conversation="c1")
    assert "green leaf" in changed.block


async def test_a_conversation_and_a_session_are_two_things(core: Core) -> None:
    saved = await save(core, key="colour", content="red apple")
    await embedded(core)
    first = await inject(core, "red apple", session="s", conversation="c")
    again = await inject(core, "red apple", session="s", conversation="c")
    named_alike = await inject(core, "red apple", conversation="s")
    assert [bool(each.block) for each in (first, again, named_alike)] == [True, False, True]
    receipt = await receipt_of(core, first)
    assert (receipt.session, receipt.conversation) == ("s", "c")
    assert (await receipt_of(core, named_alike)).session is None
    for conversation, verdict in (("c", "present"), ("other", "injected")):
        reply = await explain(core, saved.id, "red apple", conversation=conversation)
        assert reply.verdict == verdict
    assert (
        await explain(core, saved.id, "red apple", conversation="c", restarted=True)
    ).verdict == "injected"


async def test_concurrent_questions_of_a_conversation_get_each_text_once(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    await save(core, key="colour", content="red apple")
    await embedded(core)
    injected_in, asked = core.receipts.injected_in, asyncio.Event()

    async def slow_lookup(conversation: str, principal: int | None) -> tuple[list[int], int]:
        """Let concurrent questions look up the receipts before the first is answered."""
        found = await injected_in(conversation, principal)
        asked.set()
        for _ in range(100):
            await asyncio.sleep(0)
        return found

    monkeypatch.setattr(core.receipts, "injected_in", slow_lookup)
    first = asyncio.create_task(inject(core, "red apple", conversation="c1"))
    await asked.wait()
    replies = await asyncio.gather(first, inject(core, "red apple", conversation="c1"))
    other = await inject(core, "red apple", conversation="c2")
    assert [bool(each.block) for each in (*replies, other)] == [True, False, True]


async def test_a_cancelled_question_does_not_block_others(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    await save(core, key="colour", content="red apple")
    await embedded(core)
    injected_in, asked = core.receipts.injected_in, asyncio.Event()

    async def hang(conversation: str, principal: int | None) -> tuple[list[int], int]:
        asked.set()
        return await asyncio.Future()

    monkeypatch.setattr(core.receipts, "injected_in", hang)
    cancelled = asyncio.create_task(inject(core, "red apple", conversation="c1"))
    await asked.wait()
    waiting = asyncio.create_task(inject(core, "red apple", conversation="c1"))
    monkeypatch.setattr(core.receipts, "injected_in", injected_in)
    cancelled.cancel()
    assert (await asyncio.wait_for(waiting, 60)).block


async def test_a_restarted_conversation_gets_its_texts_again(core: Core) -> None:
    await save(core, key="colour", content="red apple")
    await embedded(core)
    await inject(core, "red apple", conversation="c1")
    restarted = await inject(core, "red apple", conversation="c1", restarted=True)
    again = await inject(core, "red apple", conversation="c1")
    assert [bool(each.block) for each in (restarted, again)] == [True, False]


async def test_a_conversations_texts_are_remembered_across_restarts(tmp_path: Path) -> None:
    for expected in (True, False):
        async with running_core(tmp_path, None) as core:
            await save(core, key="colour", content="red apple")
            reply = await inject(core, "red apple", conversation="c1")
            assert bool(reply.block) is expected
            await core.receipts.flush()


async def test_the_start_of_a_conversation_gets_the_nearest_entries(core: Core) -> None:
    await save(core, key="far", content="many words that lead far away from all of it")
    await embedded(core)
    assert not (await inject(core, "the rules of this project")).block
    assert (await inject(core, "the rules of this project", all=True)).block


async def test_a_conversation_does_not_get_its_own_turns_before_it_is_compacted(
    core: Core, clock: ManualClock
) -> None:
    fields = {"session": "c1", "origin": "capture", "turn": "t", "part": "prompt", "own_words": True}
    saved = await save(core, "observation", content="red apple", **fields)
    await embedded(core)
    for conversation, verdict in (("c1", "present"), ("c2", "injected")):
        reply = await inject(core, "red apple", conversation=conversation, position="system")
        assert bool(reply.block) == (verdict == "injected")
        assert (await explain(core, saved.id, "red apple", conversation="c1")).verdict == "present"
    clock.now += 1_000
    await inject(core, "zebra", conversation="c1", position="system", restarted=True)
    assert (await inject(core, "red apple", conversation="c1", position="system")).block
    later = await save(core, "observation", content="green apple pie", **(fields | {"turn": "t2"}))
    await embedded(core)
    assert (await explain(core, later.id, "green apple pie", conversation="c1")).verdict == "present"


async def test_what_an_agent_saves_in_a_conversation_is_not_its_own_turn(core: Core) -> None:
    await save(core, "observation", content="red apple", session="c1")
    await embedded(core)
    assert (await inject(core, "red apple", conversation="c1")).block
