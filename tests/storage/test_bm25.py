"""Keyword scores, also for numbers that no sound index contains."""

from __future__ import annotations

import numpy as np

from agentctx.storage.bm25 import MIN_RARITY, Postings, approximate_ranking, counts_of, rarity


def test_rarer_terms_weigh_more_and_no_weight_is_negative() -> None:
    assert rarity(1_000, 1) > rarity(1_000, 10) > rarity(1_000, 900) == MIN_RARITY
    assert rarity(3, 10) == MIN_RARITY
    assert rarity(0, 0) == MIN_RARITY


def test_more_and_rarer_terms_rank_higher() -> None:
    common = Postings(np.array([1, 2, 3]), np.array([1, 1, 4]), 1.0)
    rare = Postings(np.array([2]), np.array([1]), 5.0)
    assert approximate_ranking([rare, common]).tolist() == [2, 3, 1]
    assert approximate_ranking([]).tolist() == []


def test_a_chunk_without_the_term_has_a_count_of_zero() -> None:
    postings = Postings(np.array([3, 7]), np.array([2, 5]), 1.0)
    assert counts_of(postings, np.array([7, 1, 3, 9])).tolist() == [5, 0, 2, 0]
    assert counts_of(
        Postings(np.array([], np.int64), np.array([], np.int64), 1.0), np.array([1])
    ).tolist() == [0]
