"""When vectors are searched, and how several rankings become one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.config.embedding import RagSettings
from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.finding import Ranking, nearest
from agentctx.service.rag.question import Question
from agentctx.service.rag.retrieval import (
    MANY_CHUNKS,
    MIN_POOL,
    Retrieval,
    ServingModel,
    best_of_each,
    interleaved,
    merged,
    pool_for,
    sub_questions,
)
from agentctx.storage.search import (
    Filter,
    Nearest,
    NearestChunk,
    ResolvedChunk,
    SearchStorage,
    Steps,
    TermCounts,
    WordResults,
)
from agentctx.storage.vectors import Vectors
from agentctx.telemetry import NO_TELEMETRY
from tests.service.rag.test_select import entry

T = TypeVar("T")
NEAREST = [NearestChunk(2, "2", 0.2)]


class SlowWords:
    """A storage whose keyword search, except the first, ends only after a vector search."""

    has_words_in_memory = False

    def __init__(self, chunks: int = MANY_CHUNKS) -> None:
        self.chunks = chunks
        self.asked = False
        self.searched = asyncio.Event()
        self.words_wait = True
        self.reads: list[type] = []

    async def by_words(self, question: str, wanted: Filter, limit: int) -> WordResults:
        if self.words_wait and self.asked:
            await self.searched.wait()
        self.asked = True
        return WordResults([], TermCounts(self.chunks, {}))

    async def by_vector(self, space: int, query: Vectors, wanted: Filter, limit: int) -> list[NearestChunk]:
        self.searched.set()
        return NEAREST

    async def follow(self, begin: Callable[[], Steps[T]], space: int | None) -> T:
        steps, answer = begin(), None
        try:
            while True:
                self.reads.append(type(steps.send(answer)))
                answer = NEAREST
        except StopIteration as done:
            found: T = done.value
            return found


class Embedder:
    async def embed_query(self, text: str) -> Vectors:
        await asyncio.sleep(0)  # lets a keyword search that need not wait end first
        return np.ones(2, np.float32)


def retrieval(storage: SlowWords) -> Retrieval:
    served = ServingModel(1, embedder=Embedder())
    return Retrieval(
        cast(SearchStorage, storage), lambda: served, lambda: RagSettings(cache_entries=0), NO_TELEMETRY
    )


QUESTION = Question(text="where is it", filter=Filter(namespace="n"), limit=3)


async def test_in_a_large_memory_vectors_are_searched_while_the_keyword_search_is_running() -> None:
    storage = SlowWords()
    found = await asked_twice(storage)
    assert (found, storage.reads) == (NEAREST, [Nearest])


@pytest.mark.parametrize("storage", [SlowWords(MANY_CHUNKS - 1), SlowWords()], ids=["small", "words found"])
async def test_otherwise_the_steps_search_the_vectors(storage: SlowWords) -> None:
    storage.words_wait = False
    found = await asked_twice(storage)
    assert (found, storage.reads) == (NEAREST, [Nearest, Nearest])
    assert not storage.searched.is_set()


async def asked_twice(storage: SlowWords) -> Sequence[NearestChunk]:
    """Return what the second question finds; the first one shows how large the memory is."""
    asking = retrieval(storage)
    async with asyncio.timeout(5):
        await asking.find(QUESTION, 3, nearest)
        return await asking.find(QUESTION, 3, nearest)


async def test_words_in_memory_are_searched_by_the_steps() -> None:
    storage = SlowWords()
    storage.has_words_in_memory = True
    async with asyncio.timeout(5):
        await retrieval(storage).find(QUESTION, 3, nearest)
    assert (storage.asked, storage.reads) == (False, [Nearest])


async def test_the_keyword_search_begins_before_the_embedding() -> None:
    storage, was_asked = SlowWords(), []

    class WatchingEmbedder(Embedder):
        async def embed_query(self, text: str) -> Vectors:
            was_asked.append(storage.asked)
            return await super().embed_query(text)

    served = ServingModel(1, embedder=WatchingEmbedder())
    asking = Retrieval(cast(SearchStorage, storage), lambda: served, RagSettings, NO_TELEMETRY)
    await asking.find(QUESTION, 3, nearest)
    assert was_asked == [True]


@pytest.mark.parametrize("steps", range(6))
async def test_a_cancelled_question_leaves_no_keyword_search_behind(steps: int) -> None:
    storage = SlowWords()
    storage.asked = True  # so that it waits
    question = asyncio.create_task(retrieval(storage).find(QUESTION, 3, nearest))
    for _ in range(steps):
        await asyncio.sleep(0)
    question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question
    for _ in range(3):  # the cancelled search ends
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


RELEVANCES = st.lists(st.floats(0, 1), max_size=8)


def text(chunk: int) -> ResolvedChunk:
    return ResolvedChunk(chunk=chunk, start=0, end=1, content="x", entry=entry(chunk))


def test_of_several_questions_each_passage_has_its_best_relevance() -> None:
    first = Ranking(
        [Candidate(1, "1", 1.0, 0.5, relevance=0.2), Candidate(2, "2", 1.0, 0.5, relevance=0.6)],
        [],
        {1: text(1), 2: text(2)},
        "provider_failed: down",
    )
    rest = [Candidate(3, "3", 1.0, None), Candidate(2, "2", 1.0, None)]
    second = Ranking([Candidate(1, "1", 1.0, 0.5, relevance=0.9)], rest, {1: text(1)})
    both = best_of_each([first, second])
    assert [(each.chunk, each.relevance) for each in both.candidates] == [(1, 0.9), (2, 0.6), (3, 0.0)]
    assert (len(both.rated), set(both.texts), both.degraded) == (2, {1, 2}, "provider_failed: down")


def test_a_call_asks_a_compound_prompt_also_in_parts() -> None:
    text = "Move the Grafana boards, the nightly Kafka job and the iOS builds to Lyon"
    question = Question(text=text, filter=Filter(namespace="n"), also=("m",), limit=5)
    parts = ["Grafana boards", "nightly Kafka job", "iOS builds", "Lyon"]
    asked = [
        (each.filter.namespace, each.text, each.tries) for each in sub_questions(question, in_parts=True)
    ]
    assert asked == [
        (name, each, 1 if each == text else len(parts)) for name in ("n", "m") for each in (text, *parts)
    ]
    assert [each.text for each in sub_questions(question)] == [text, text]


def test_parts_make_candidates_more_likely_in_the_order_of_the_whole() -> None:
    whole = Question(text="a b", filter=Filter(namespace="n"), limit=5)
    part = replace(whole, text="a", tries=3)
    both = merged([whole, part], [ranking(1, [0.1, 0.6]), ranking(1, [0.4, 0.2, 0.3])])
    assert [(each.chunk, each.relevance) for each in both.rated] == [(1, 0.4), (2, 0.6), (3, 0.3)]


def test_a_candidate_is_as_far_behind_as_for_the_query_that_it_answers_best() -> None:
    whole, part = (
        Ranking([Candidate(1, "e1", None, 0.3, relevance=relevance, behind=behind)], [], {})
        for relevance, behind in ((0.5, 4.0), (0.4, 0.0))
    )
    (candidate,) = best_of_each([whole, part]).rated
    assert (candidate.relevance, candidate.behind) == (0.5, 0.0)


def test_the_pool_grows_with_the_limit() -> None:
    assert pool_for(1) == MIN_POOL
    assert pool_for(100) > pool_for(50) > MIN_POOL


def ranking(first: int, relevances: list[float], *, unjudged: int = 0) -> Ranking:
    candidates = [
        Candidate(first + at, f"e{first + at}", None, None, relevance=each)
        for at, each in enumerate([*relevances, *[0.0] * unjudged])
    ]
    rated = len(relevances)
    return Ranking(candidates[:rated], candidates[rated:], {})


def relevances(found: Ranking) -> list[float]:
    return [each.relevance for each in found.rated]


def test_the_most_relevant_passage_comes_first_from_any_source() -> None:
    found = interleaved([ranking(0, [0.5, 0.1]), ranking(10, [0.9, 0.3])])
    assert relevances(found) == [0.9, 0.5, 0.3, 0.1]


def test_reranking_does_not_demote_passages_ahead_of_better_ones() -> None:
    found = interleaved([ranking(0, [0.2, 0.8]), ranking(10, [0.6])])
    assert relevances(found) == [0.2, 0.8, 0.6]


def test_unread_passages_come_last() -> None:
    found = interleaved([ranking(0, [0.1], unjudged=2), ranking(10, [0.9], unjudged=1)])
    assert (len(found.rated), [each.chunk for each in found.candidates]) == (2, [10, 0, 1, 2, 11])


@given(st.lists(RELEVANCES, min_size=2, max_size=4))
def test_each_ranking_keeps_its_order(lists: list[list[float]]) -> None:
    rankings = [ranking(100 * at, each) for at, each in enumerate(lists)]
    merged = [each.chunk for each in interleaved(rankings).candidates]
    for alone in rankings:
        mine = [each.chunk for each in alone.candidates]
        assert [chunk for chunk in merged if chunk in mine] == mine
    assert len(merged) == sum(map(len, lists))
