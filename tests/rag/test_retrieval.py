"""How several rankings become one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx.rag.candidate import Candidate
from agentctx.rag.finding import Retrieved
from agentctx.rag.retrieval import MIN_POOL, best_of_each, interleaved, pool_for
from agentctx.storage.search import ResolvedChunk
from tests.rag.test_select import entry

RELEVANCES = st.lists(st.floats(0, 1), max_size=8)


def text(chunk: int) -> ResolvedChunk:
    return ResolvedChunk(chunk=chunk, start=0, end=1, content="x", entry=entry(chunk))


def test_of_several_questions_each_passage_has_its_best_relevance() -> None:
    first = Retrieved(
        [Candidate(1, "1", 1.0, 0.5, relevance=0.2), Candidate(2, "2", 1.0, 0.5, relevance=0.6)],
        {1: text(1), 2: text(2)},
        2,
        "provider_failed: down",
    )
    found = [
        Candidate(1, "1", 1.0, 0.5, relevance=0.9),
        Candidate(3, "3", 1.0, None),
        Candidate(2, "2", 1.0, None),
    ]
    second = Retrieved(found, {1: text(1)}, 1)
    both = best_of_each([first, second])
    assert [(each.chunk, each.relevance) for each in both.candidates] == [(1, 0.9), (2, 0.6), (3, 0.0)]
    assert (both.judged, set(both.texts), both.degraded) == (2, {1, 2}, "provider_failed: down")


def test_the_pool_grows_with_the_limit() -> None:
    assert pool_for(1) == MIN_POOL
    assert pool_for(100) > pool_for(50) > MIN_POOL


def ranking(first: int, relevances: list[float], *, unjudged: int = 0) -> Retrieved:
    candidates = [
        Candidate(first + at, f"e{first + at}", None, None, relevance=each)
        for at, each in enumerate([*relevances, *[0.0] * unjudged])
    ]
    return Retrieved(candidates, {}, len(relevances))


def relevances(found: Retrieved) -> list[float]:
    return [each.relevance for each in found.candidates[: found.judged]]


def test_the_most_relevant_passage_comes_first_from_any_source() -> None:
    found = interleaved([ranking(0, [0.5, 0.1]), ranking(10, [0.9, 0.3])])
    assert relevances(found) == [0.9, 0.5, 0.3, 0.1]


def test_reranking_does_not_demote_passages_ahead_of_better_ones() -> None:
    found = interleaved([ranking(0, [0.2, 0.8]), ranking(10, [0.6])])
    assert relevances(found) == [0.2, 0.8, 0.6]


def test_unread_passages_come_last() -> None:
    found = interleaved([ranking(0, [0.1], unjudged=2), ranking(10, [0.9], unjudged=1)])
    assert (found.judged, [each.chunk for each in found.candidates]) == (2, [10, 0, 1, 2, 11])


@given(st.lists(RELEVANCES, min_size=2, max_size=4))
def test_each_ranking_keeps_its_order(lists: list[list[float]]) -> None:
    rankings = [ranking(100 * at, each) for at, each in enumerate(lists)]
    merged = [each.chunk for each in interleaved(rankings).candidates]
    for alone in rankings:
        mine = [each.chunk for each in alone.candidates]
        assert [chunk for chunk in merged if chunk in mine] == mine
    assert len(merged) == sum(map(len, lists))
