"""What a call is given when the judge reads, fails or is late. The real judge is in tests/embedding."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentctx.daemon.build import Core
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.errors import ProviderFailed
from agentctx.service.rag.question import Answer, Question
from agentctx.service.rag.relevance import Calibration, Scale
from agentctx.service.rag.retrieval import ServingModel
from agentctx.service.rag.service import RAGService
from agentctx.storage.search import Filter
from tests.running_core import embedded, running_core, save

QUESTION = "which colour does the red lamp have"
RIGHT, OTHER = "the red lamp is dim", "which colour does the door have"
# Without a background to compare with, the rules are nearly certain of both; so is the judge.
YES, NO = 20.0, -20.0


class Opinion:
    """A judge that gives each passage the score of a function."""

    def __init__(self, score: Callable[[str], float]) -> None:
        self._score = score
        self.read: list[str] = []

    async def scores(self, prompt: str, passages: Sequence[str]) -> list[float]:
        self.read += passages
        return [self._score(passage) for passage in passages]


class Absent:
    """A judge that raises, or never answers."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def scores(self, prompt: str, passages: Sequence[str]) -> list[float]:
        if self._error is not None:
            raise self._error
        await asyncio.Event().wait()
        return []


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with running_core(tmp_path, FakeProvider(dimension=64)) as running:
        for text in (RIGHT, OTHER):
            await save(running, key=text, content=text)
        await embedded(running)
        yield running


async def injected(core: Core, judge: Opinion | Absent | None, **changes: Any) -> Answer:
    assert core.lanes is not None
    builder = core.lanes.leading.builder
    # A background to which nothing is near, so that the question is one in a language that the model knows.
    calibration = Calibration(Scale(), np.zeros((12, 64), dtype=np.float32))
    serving = ServingModel(builder.searched, None, builder.provider, calibration, judge)
    question = Question(
        text=QUESTION,
        filter=Filter(namespace="default"),
        limit=5,
        order="relevance",
        position="tail",
        **changes,
    )
    return await RAGService(core.storage, None, lambda: serving).context(question, budget_tokens=1_000)


def contents(answer: Answer) -> list[str]:
    return [hit.content for hit in answer.hits]


async def test_the_judge_decides_what_the_rules_leave_open(core: Core) -> None:
    by_rules = contents(await injected(core, None))
    answer = await injected(core, Opinion(lambda text: YES if text == RIGHT else NO))
    assert OTHER in by_rules
    assert contents(answer) == [RIGHT]
    assert answer.judge is None
    assert {each.candidate.by_judge for each in answer.considered} == {True}


async def test_what_it_prefers_comes_first_with_the_higher_figure(core: Core) -> None:
    answer = await injected(core, Opinion(lambda text: 6.0 if text == RIGHT else 3.0))
    assert contents(answer) == [RIGHT, OTHER]
    figures = [hit.relevance for hit in answer.hits]
    assert figures == sorted(figures, reverse=True)


@pytest.mark.parametrize(
    ("judge", "reason"),
    [
        (
            Absent(ProviderFailed("The judge failed on a text.")),
            "provider_failed: The judge failed on a text.",
        ),
        (Absent(), "deadline: the rules decided alone"),
    ],
)
async def test_without_its_opinion_the_rules_decide_and_the_answer_says_so(
    core: Core, judge: Absent, reason: str
) -> None:
    answer = await injected(core, judge, deadline_s=0.5)
    assert contents(answer) == contents(await injected(core, None))
    assert answer.judge == reason
    assert answer.block


async def test_it_reads_the_cues_of_a_passage_too(core: Core) -> None:
    await save(core, key="cued", content=RIGHT + " red", cues=["which colour glows", "the red lamp"])
    await embedded(core)
    judge = Opinion(lambda _: 1.0)
    await injected(core, judge)
    assert f"which colour glows, the red lamp: {RIGHT} red" in judge.read
    assert RIGHT in judge.read


async def test_a_call_that_asks_for_everything_is_not_judged(core: Core) -> None:
    judge = Opinion(lambda _: NO)
    assert set(contents(await injected(core, judge, everything=True))) == {RIGHT, OTHER}
    assert judge.read == []
