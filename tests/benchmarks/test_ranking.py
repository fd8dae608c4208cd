from __future__ import annotations

from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.ranking import Quality, mean_quality, ndcg, quality, recall, reciprocal_rank

RANKED = ["a", "b", "c", "d"]


def test_recall_is_the_share_of_the_relevant_among_the_first() -> None:
    assert recall(RANKED, {"b", "d"}, 1) == 0
    assert recall(RANKED, {"b", "d"}, 2) == 0.5
    assert recall(RANKED, {"b", "d"}, 4) == 1
    assert recall(RANKED, {"b", "x"}, 4) == 0.5


def test_reciprocal_rank_is_that_of_the_first_relevant_within_reach() -> None:
    assert reciprocal_rank(RANKED, {"c", "d"}, 10) == pytest.approx(1 / 3)
    assert reciprocal_rank(RANKED, {"c"}, 2) == 0
    assert reciprocal_rank([], {"c"}, 10) == 0


def test_ndcg_discounts_by_rank_and_compares_with_the_best_order() -> None:
    best = 1 + 1 / log2(3)
    assert ndcg(RANKED, {"a", "b"}, 10) == pytest.approx(1)
    assert ndcg(RANKED, {"b", "d"}, 10) == pytest.approx((1 / log2(3) + 1 / log2(5)) / best)


def test_ndcg_can_be_1_when_more_is_relevant_than_fits() -> None:
    assert ndcg(RANKED, {"a", "b", "x", "y"}, 2) == pytest.approx(1)


@settings(max_examples=100)
@given(st.permutations(list("abcdefghijkl")), st.sets(st.sampled_from("abcdefghijkl"), min_size=1))
def test_every_measure_is_a_share_and_1_exactly_for_a_perfect_ranking(
    ranked: list[str], relevant: set[str]
) -> None:
    perfect = sorted(ranked, key=lambda document: document not in relevant)
    assert 0 <= ndcg(ranked, relevant, 10) <= 1 + 1e-12
    assert ndcg(perfect, relevant, 10) == pytest.approx(1)
    assert recall(ranked, relevant, len(ranked)) == 1
    assert reciprocal_rank(perfect, relevant, 10) == 1


def test_quality_looks_at_1_5_and_10() -> None:
    ranked = [str(number) for number in range(20)]
    assert quality(ranked, {"0", "4", "9", "10"}) == Quality(
        recall_1=0.25,
        recall_5=0.5,
        recall_10=0.75,
        mrr_10=1.0,
        ndcg_10=ndcg(ranked, {"0", "4", "9", "10"}, 10),
    )


def test_the_mean_is_taken_of_each_measure() -> None:
    first, second = Quality(1, 1, 1, 1, 1), Quality(0, 0.5, 1, 0.5, 0.25)
    assert mean_quality([first, second]) == Quality(0.5, 0.75, 1, 0.75, 0.625)
