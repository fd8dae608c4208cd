"""What may be injected, on the real storage with the deterministic provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentctx.config.embedding import RagSettings
from agentctx.daemon.build import Core
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.service.rag.candidate import Candidate, Trace, count_fates
from agentctx.service.rag.injection import InjectionRules, select_candidates
from agentctx.service.rag.question import Answer, Question
from agentctx.service.rag.relevance import BY_FEW_WORDS, BY_WORDS, Eagerness, Gate
from agentctx.service.rag.retrieval import ServingModel
from agentctx.service.rag.service import NamespaceSizes, RAGService
from agentctx.storage.file.driver import open_connection
from agentctx.storage.search import Filter, ResolvedChunk
from agentctx.storage.sqlite import checksums
from agentctx.wire import Fate
from tests.running_core import embedded, running_core, save
from tests.service.rag.test_select import entry

ALL = Filter(namespace="default")


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with running_core(tmp_path, FakeProvider(dimension=64)) as running:
        yield running


async def ask(core: Core, text: str, *, eagerness: Eagerness | None = None, **changes: Any) -> Answer:
    """Return the context of an injection; with `eagerness` None, of everything found."""
    assert core.lanes is not None
    builder = core.lanes.leading.builder
    rag = RAGService(
        core.storage,
        builder.provider,
        lambda: ServingModel(builder.searched, builder.reason),
        RagSettings(**changes.pop("settings", {})),
        eagerness=eagerness,
    )
    budget = changes.pop("budget_tokens", 1_000)
    question = Question(text=text, filter=ALL, limit=5, order="relevance", position="tail")
    return await rag.context(replace(question, **changes), budget_tokens=budget)


def sources(context: Answer) -> list[str]:
    return [hit.source_id for hit in context.hits]


def fates(context: Answer) -> dict[Fate, int]:
    return count_fates(context.considered)


def rewrite_trust(folder: Path, key: str, trust: str) -> None:
    # No save can give an entry the trust of an operator yet.
    with closing(open_connection(folder / "agentctx.db")) as connection:
        (seq,) = connection.execute("SELECT seq FROM entries WHERE key = ?", (key,)).fetchone()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE entries SET trust = ? WHERE seq = ?", (trust, seq))
        checksums.seal(connection, seq)
        connection.execute("COMMIT")


class TestTrust:
    async def test_the_system_prompt_carries_nothing_external(self, core: Core, tmp_path: Path) -> None:
        await save(core, key="mine", content="red apple")
        await save(core, key="theirs", content="red pear", origin="document")
        await save(core, key="operators", content="red plum")
        rewrite_trust(tmp_path, "operators", "operator")
        await embedded(core)
        assert set(sources(await ask(core, "red", position="system"))) == {"mine", "operators"}
        assert set(sources(await ask(core, "red", position="tail"))) == {"mine", "theirs", "operators"}

    async def test_external_passages_do_not_crowd_out_others(self, core: Core) -> None:
        for number in range(60):
            await save(core, key=f"k{number}", content=f"red red red {number}", origin="document")
        await save(core, key="mine", content="red and a lot of other words that lead away from it all")
        await embedded(core)
        assert sources(await ask(core, "red", position="system")) == ["mine"]


class TestPresent:
    async def test_passages_already_in_the_conversation_are_left_out(self, core: Core) -> None:
        await save(core, key="said", content="red apple")
        await save(core, key="new", content="red pear")
        await embedded(core)
        context = await ask(core, "red", present=["You said: red\n   apple!"])
        assert (sources(context), fates(context)) == (["new"], {"injected": 1, "present": 1})

    async def test_its_own_earlier_block_is_not_repeated(self, core: Core) -> None:
        await save(core, key="k", content="red apple\n\nred pear")
        await embedded(core)
        first = await ask(core, "red")
        again = await ask(core, "red", present=[f"What about red?\n\n{first.block}"])
        assert first.block
        assert (again.block, fates(again)) == ("", {"present": 1})

    async def test_the_rule_applies_without_a_position(self, core: Core) -> None:
        await save(core, key="said", content="red apple")
        await embedded(core)
        assert (await ask(core, "red", position=None, present=["red apple"])).block == ""

    async def test_others_take_the_places_that_come_free(self, core: Core) -> None:
        for number in range(9):
            await save(core, key=f"k{number}", content=f"red {number}")
        await embedded(core)
        first = await ask(core, "red")
        present = [hit.content for hit in first.hits]
        then = await ask(core, "red", present=present)
        assert len(then.hits) == 4
        assert not set(sources(first)) & set(sources(then))


class TestDuplicates:
    async def test_two_entries_that_say_the_same_are_reported_once(self, core: Core) -> None:
        one = await save(core, key="one", content="red apple")
        await save(core, key="two", content="red   apple")
        await save(core, key="other", content="red pear")
        await embedded(core)
        context = await ask(core, "red apple")
        assert len(sources(context)) == 2
        (duplicate,) = (each for each in context.considered if each.fate == "duplicate")
        assert one.id in {duplicate.duplicate_of, duplicate.candidate.entry}

    async def test_an_edited_entry_is_reported_once_and_as_it_is(self, core: Core) -> None:
        await save(core, key="k", content="red apple")
        await embedded(core)
        await save(core, key="k", content="red pear")
        context = await ask(core, "red apple pear")
        assert [hit.content for hit in context.hits] == ["red pear"]


class TestRelevance:
    async def test_nothing_relevant_is_nothing_injected(self, core: Core) -> None:
        await save(core, key="k", content="red apple")
        await embedded(core)
        context = await ask(core, "zebra quagga okapi", eagerness="eager")
        assert (context.block, fates(context)) == ("", {"relevance": 1})
        assert context.gate is not None
        assert sources(await ask(core, "red apple", eagerness="careful")) == ["k"]

    async def test_a_prompt_without_content_asks_nothing(self, core: Core) -> None:
        await save(core, key="k", content="thanks go on")
        await embedded(core)
        context = await ask(core, "Thanks, go on!", eagerness="eager")
        assert (context.block, context.considered) == ("", ())

    async def test_a_context_without_a_position_needs_relevance_too(self, core: Core) -> None:
        await save(core, key="k", content="red apple")
        await embedded(core)
        for present in ((), ("something else",)):
            context = await ask(core, "zebra", eagerness="careful", position=None, present=present)
            assert (context.block, fates(context)) == ("", {"relevance": 1})

    async def test_everything_needs_no_relevance(self, core: Core) -> None:
        await save(core, key="k", content="red apple")
        await embedded(core)
        for question, present in (("zebra", ()), ("zebra", ("something else",)), ("Thanks, go on!", ())):
            context = await ask(
                core, question, eagerness="careful", position=None, present=present, everything=True
            )
            assert sources(context) == ["k"]

    async def test_the_rule_applies_to_the_distance_of_the_question(self, core: Core) -> None:
        await save(core, key="k", content="red apple")
        await embedded(core)
        context = await ask(core, "zebra", max_distance=0.5)
        assert (sources(context), fates(context)) == ([], {"distance": 1})

    @pytest.mark.parametrize(
        ("relevance", "by_words", "admitted"),
        [(BY_WORDS, True, True), (BY_FEW_WORDS, True, False), (BY_WORDS, False, False), (0.99, False, True)],
    )
    def test_the_gate_of_a_large_memory_measures_similarities_not_words(
        self, relevance: float, by_words: bool, admitted: bool
    ) -> None:
        candidate = Candidate(1, "e", 1.0, None, relevance=relevance, by_words=by_words)
        found = {1: ResolvedChunk(chunk=1, start=0, end=4, content="text", entry=entry(1))}
        rules = InjectionRules(gate=Gate.of("careful", 100_000))
        kept = select_candidates([candidate], found, rules, Trace([candidate]), max_per_entry=1)
        assert bool(kept) is admitted

    async def test_words_alone_decide_without_a_model(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with running_core(tmp_path, None) as core:
            await save(core, key="runbook", content="deploys run from the main branch, ask Kim")
            await save(core, key="noise", content="Kim had lunch")
            rag = RAGService(core.storage, None, lambda: ServingModel(None), eagerness="careful")
            monkeypatch.setattr(NamespaceSizes, "of", lambda *_: asyncio.sleep(0, 1_000_000))
            question = Question(
                text="who runs deploys from which branch, Kim?", filter=ALL, limit=5, position="tail"
            )
            context = await rag.context(question, budget_tokens=1_000)
        assert (sources(context), fates(context)) == (["runbook"], {"injected": 1, "relevance": 1})
        assert context.degraded is not None

    async def test_keys_and_tags_count_as_words(self, tmp_path: Path) -> None:
        async with running_core(tmp_path, None) as core:
            await save(core, key="deploy-window", content="Never on Fridays.", tags=["release"])
            rag = RAGService(core.storage, None, lambda: ServingModel(None))
            question = Question(text="deploy window for the release", filter=ALL, limit=5, position="tail")
            assert sources(await rag.context(question, budget_tokens=1_000)) == ["deploy-window"]

    async def test_a_question_after_a_paste_finds_its_memory(self, core: Core) -> None:
        await save(core, key="window", content="production deploys happen on tuesday mornings")
        await embedded(core)
        paste = "\n".join(f"result[{n}] = compute(values[{n}], {n});" for n in range(120))
        prompt = f"{paste}\n\nWhen do production deploys happen?"
        assert sources(await ask(core, prompt, eagerness="careful")) == ["window"]


class TestTrace:
    async def test_every_candidate_is_accounted_for(self, core: Core) -> None:
        for number in range(12):
            await save(core, key=f"k{number}", content=f"red {number} " + "word " * 60)
        await save(core, key="long", content="\n\n".join(f"red {n} " + "x " * 300 for n in range(4)))
        await embedded(core)
        context = await ask(core, "red", budget_tokens=400)
        counted = fates(context)
        assert counted["injected"] == len(context.hits) > 0
        assert sum(counted.values()) == len(context.considered)
        assert {"limit", "budget", "share"} <= set(counted)
        scores = [each.candidate.score for each in context.considered]
        assert scores == sorted(scores, reverse=True)

    async def test_entries_deleted_meanwhile_are_stale(
        self, core: Core, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone = await save(core, key="gone", content="red apple")
        await embedded(core)
        follow = type(core.storage.search).follow

        async def deleting(self: Any, *arguments: Any) -> Any:
            await core.storage.entries.delete(gone.id)
            return await follow(self, *arguments)

        monkeypatch.setattr(type(core.storage.search), "follow", deleting)
        assert fates(await ask(core, "red")) == {"stale": 1}

    async def test_a_context_of_everything_has_no_trace(self, core: Core) -> None:
        await save(core, key="k", content="red apple")
        await embedded(core)
        assert (await ask(core, "red", position=None, everything=True)).considered == ()


async def test_an_injection_waits_for_meaning_no_longer_than_configured(tmp_path: Path) -> None:
    provider = FakeProvider(dimension=64)
    async with running_core(tmp_path, provider) as core:
        await save(core, key="k", content="red apple")
        await embedded(core)
        provider.hold(batches=False)
        context = await ask(core, "red apple", deadline_s=0.01)
        provider.release()
    assert context.degraded == "deadline: it took longer than 0.01 s"
    assert sources(context) == ["k"]


class TestNames:
    async def test_a_twin_is_left_out_with_its_own_reason(self, core: Core) -> None:
        await save(core, key="right", content="QRS-1234 was about the crash")
        await save(core, key="twin", content="QRS-1243 was about the export")
        await embedded(core)
        context = await ask(core, "what was QRS-1234 about?", eagerness="normal")
        assert (sources(context), fates(context)) == (["right"], {"injected": 1, "twin": 1})

    async def test_the_very_identifier_passes_any_gate(self, core: Core) -> None:
        await save(core, key="right", content="QRS-1234: the tax service got an empty id")
        for number in range(40):
            await save(
                core, key=f"k{number}", content=f"reasons why shipping was slow that day, part {number}"
            )
        await embedded(core)
        context = await ask(core, "reasons why shipping was slow, QRS-1234?", eagerness="careful")
        assert "right" in sources(context)

    async def test_a_question_about_an_unknown_name_gets_nothing(self, core: Core) -> None:
        await save(core, key="twin", content="QRS-1243 was about the export")
        await save(core, key="other", content="the export was about money")
        await embedded(core)
        context = await ask(core, "what was QRS-1234 about?", eagerness="eager")
        assert (sources(context), context.block) == ([], "")

    async def test_everything_includes_twins(self, core: Core) -> None:
        await save(core, key="twin", content="QRS-1243 was about the export")
        await embedded(core)
        context = await ask(core, "what was QRS-1234 about?", eagerness="eager", everything=True)
        assert sources(context) == ["twin"]
