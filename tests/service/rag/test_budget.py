from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.budget import estimate_tokens, fit

any_text = st.text(st.characters())


class TestEstimateTokens:
    def test_only_nothing_is_free(self) -> None:
        assert estimate_tokens("") == 0
        assert estimate_tokens(" ") == 1

    @pytest.mark.parametrize(
        ("text", "tokens"),
        [("a" * 36, 10), ("a" * 37, 11), ("数据库", 3), ("データベース", 6), ("시스템", 3), ("é" * 18, 10)],
    )
    def test_counts_bytes_for_latin_and_characters_for_cjk(self, text: str, tokens: int) -> None:
        assert estimate_tokens(text) == tokens

    def test_ascii_costs_the_same_beside_other_scripts(self) -> None:
        assert estimate_tokens("a" * 36 + "库") == 11

    def test_a_lone_surrogate_has_a_cost(self) -> None:
        assert estimate_tokens("\ud800") == 1

    @given(any_text, any_text)
    def test_joining_texts_never_costs_less_than_one_nor_more_than_both(self, one: str, two: str) -> None:
        joined = estimate_tokens(one + two)
        assert max(estimate_tokens(one), estimate_tokens(two)) <= joined
        assert joined <= estimate_tokens(one) + estimate_tokens(two)


class TestFit:
    def test_takes_all_that_fit_exactly(self) -> None:
        assert fit(["aa", "bbb"], 5, len) == ["aa", "bbb"]

    def test_oversized_passages_are_skipped_for_smaller_ones(self) -> None:
        assert fit(["aaa", "bbbb", "cc", "d"], 6, len) == ["aaa", "cc", "d"]

    def test_no_budget_takes_nothing(self) -> None:
        assert fit(["a"], 0, len) == []
        assert fit(["a"], -7, len) == []

    @given(st.lists(st.text(max_size=9)), st.integers(0, 30))
    def test_stays_within_the_budget_and_keeps_the_order(self, passages: list[str], budget: int) -> None:
        kept = fit(passages, budget, len)
        assert sum(map(len, kept)) <= budget
        remaining = iter(passages)
        assert all(passage in remaining for passage in kept)
