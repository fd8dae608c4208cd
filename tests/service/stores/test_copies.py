"""Which captured texts count as copies of a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.stores.copies import copies_among

FACT = "The staging database password rotates on the first Monday of each month."


def is_copy(text: str, other: str) -> bool:
    return bool(copies_among(text, {"other": other}))


@pytest.mark.parametrize(
    "other",
    [
        FACT,
        "the staging database password ROTATES on the first monday of each month",
        f"As we said before: {FACT} I will put that into the runbook, with the names of those who do it.",
        "The staging database password rotates on the first Monday.",
    ],
)
def test_a_repetition_is_a_copy(other: str) -> None:
    assert is_copy(FACT, other)
    assert is_copy(other, FACT)


@pytest.mark.parametrize(
    "other",
    ["", "…", "The production database has no password that rotates.", "Deploy on the first Friday of May."],
)
def test_another_text_on_the_same_subject_is_not_a_copy(other: str) -> None:
    assert not is_copy(FACT, other)


def test_a_short_text_must_be_copied_completely() -> None:
    assert is_copy("blue whale", "It was a Blue Whale, no doubt.")
    assert not is_copy("blue whale", "It was a whale, and blue.")


@given(st.text(), st.text())
def test_the_order_of_the_two_texts_does_not_matter(text: str, other: str) -> None:
    assert is_copy(text, other) == is_copy(other, text)


def test_copies_are_listed_in_order() -> None:
    others = {"a": f"Again: {FACT}", "b": "Something else.", "c": FACT, "d": ""}
    assert copies_among(FACT, others) == ["a", "c"]
