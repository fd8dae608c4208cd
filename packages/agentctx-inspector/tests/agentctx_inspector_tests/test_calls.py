"""The receipts of calls, and questions tried beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import pytest

from agentctx import wire
from agentctx_inspector.calls import WHY, most_words
from agentctx_inspector_tests.running_pages import RunningPages, running_pages
from tests.running_core import ME, save


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[RunningPages]:
    async with running_pages(tmp_path, injection={"store_prompts": True}) as running:
        await save(running.core, key="rule", content="Deploy on Fridays.", agent="planner")
        await save(running.core, key="tea", content="Tea is made at four.")
        yield running


async def called(pages: RunningPages, question: str) -> wire.ContextReply:
    request = wire.ContextRequest(query=question, position="tail", conversation="chat <b>", agent="planner")
    return await pages.core.questions.context(request, ME)


def test_every_fate_has_words() -> None:
    assert set(WHY) == set(get_args(wire.Fate))


async def test_calls_are_listed_newest_first(pages: RunningPages) -> None:
    assert "No call was given context yet" in await pages.page("/calls")
    await called(pages, "deploy on fridays")
    await called(pages, "something else entirely?")
    page = await pages.page("/calls")
    assert page.index("something else entirely?") < page.index("deploy on fridays")
    assert "planner" in page
    assert "<b>" not in page


async def test_a_receipt_shows_the_block_and_what_became_of_each_passage(pages: RunningPages) -> None:
    reply = await called(pages, "deploy on fridays")
    page = await pages.page(f"/calls/{reply.injection_id}")
    block, _, found = page.partition("What was found")
    assert "Deploy on Fridays" in block
    assert "Tea is made" not in block
    assert ">rule</a>" in found
    assert "in the block" in found


async def test_a_receipt_outlives_its_memories(pages: RunningPages) -> None:
    reply = await called(pages, "deploy on fridays")
    (hit,) = reply.results
    await pages.core.forgetting.forget(hit.id, ME)
    page = await pages.page(f"/calls/{reply.injection_id}")
    assert "gone" in page
    assert "Deploy on" not in page


async def test_an_unknown_receipt_is_said_in_its_place(pages: RunningPages) -> None:
    assert "<h1>Receipt &#39;unknown&#39; does not exist" in await pages.page("/calls/unknown")


async def test_a_question_is_tried_without_leaving_a_receipt(pages: RunningPages) -> None:
    page = await pages.page("/calls/ask?q=deploy+on+fridays&namespace=default")
    assert "## Semantic Context (RAG)" in page
    assert "No call was given context yet" in await pages.page("/calls")
    assert "A call would get nothing" in await pages.page("/calls/ask?q=unrelated+zebra&fragment=1")


async def test_why_and_why_not(pages: RunningPages) -> None:
    reply = await called(pages, "deploy on fridays")
    (hit,) = reply.results
    address = f"/calls/ask?memory={hit.id}&fragment=1&q="
    assert "It would be in the block" in await pages.page(f"{address}deploy+on+fridays")
    assert "It would not be in the block" in await pages.page(f"{address}zebra")
    assert "no entry has this id" in await pages.page("/calls/ask?memory=unknown&q=zebra")


async def test_a_refused_question_is_said_beside_it(pages: RunningPages) -> None:
    page = await pages.page("/calls/ask?q=zebra&namespace=not+valid%21")
    assert 'role="alert"' in page
    assert 'value="zebra"' in page


def test_the_scale_of_words_ends_at_the_best() -> None:
    def candidate(score: float | None) -> wire.InjectionCandidate:
        return wire.InjectionCandidate(
            entry="1", chunk=1, word_score=score, distance=None, relevance=0.5, fate="injected"
        )

    assert most_words([candidate(None), candidate(2.5), candidate(1.0)]) == 2.5
    assert most_words([candidate(None)]) == 1.0
