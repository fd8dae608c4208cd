"""Keyword scores, also for numbers that no sound index contains."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentctx.storage.bm25 import MIN_RARITY, Postings, approximate_ranking, counts_of, rarity


def test_rarer_terms_weigh_more_and_no_weight_is_negative() -> None:
    assert rarity(1_000, 1) > rarity(1_000, 10) > rarity(1_000, 900) == MIN_RARITY
    assert rarity(3, 10) == MIN_RARITY
    assert rarity(0, 0) == MIN_RARITY


def test_more_and_rarer_terms_rank_higher() -> None:
    common = Postings(np.array([1, 2, 3]), np.array([1, 1, 4]), 1.0)
    rare = Postings(np.array([2]), np.array([1]), 5.0)
    assert [group.tolist() for group in approximate_ranking([rare, common], 2)] == [[2, 3], [1]]
    assert list(approximate_ranking([], 2)) == []


@given(st.lists(st.dictionaries(st.integers(1, 40), st.integers(1, 3)), max_size=4), st.integers(1, 12))
def test_groups_contain_every_chunk_once_in_order(terms: list[dict[int, int]], size: int) -> None:
    """Chunks with equal scores are in ascending order, across groups too."""
    postings = [
        Postings(np.array(sorted(each)), np.array([each[c] for c in sorted(each)]), 1.0) for each in terms
    ]
    scores: dict[int, float] = {}
    for each in terms:
        for chunk, count in each.items():
            scores[chunk] = scores.get(chunk, 0.0) + count * 2.2 / (count + 1.2)
    groups = list(approximate_ranking(postings, size))
    ranked = [chunk for group in groups for chunk in group.tolist()]
    assert sorted(ranked) == sorted(scores)
    keys = [(-round(scores[chunk], 9), chunk) for chunk in ranked]
    assert keys == sorted(keys)
    assert all(len(group) == size for group in groups[:-1])


def test_a_chunk_without_the_term_has_a_count_of_zero() -> None:
    postings = Postings(np.array([3, 7]), np.array([2, 5]), 1.0)
    assert counts_of(postings, np.array([7, 1, 3, 9])).tolist() == [5, 0, 2, 0]
    assert counts_of(
        Postings(np.array([], np.int64), np.array([], np.int64), 1.0), np.array([1])
    ).tolist() == [0]
