"""How several rankings become one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx.rag.fuse import Candidate
from agentctx.rag.retrieval import Retrieved, interleaved

RELEVANCES = st.lists(st.floats(0, 1), max_size=8)


def ranking(first: int, relevances: list[float], *, unjudged: int = 0) -> Retrieved:
    candidates = [
        Candidate(first + at, f"e{first + at}", None, None, relevance=each)
        for at, each in enumerate([*relevances, *[0.0] * unjudged])
    ]
    return Retrieved(candidates, {}, len(relevances))


def relevances(found: Retrieved) -> list[float]:
    return [each.relevance for each in found.candidates[: found.judged]]


def test_the_most_relevant_comes_first_wherever_it_is_from() -> None:
    found = interleaved([ranking(0, [0.5, 0.1]), ranking(10, [0.9, 0.3])])
    assert relevances(found) == [0.9, 0.5, 0.3, 0.1]


def test_what_stands_before_something_better_is_not_put_behind_others() -> None:
    found = interleaved([ranking(0, [0.2, 0.8]), ranking(10, [0.6])])
    assert relevances(found) == [0.2, 0.8, 0.6]


def test_what_was_not_read_comes_last() -> None:
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
