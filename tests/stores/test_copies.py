"""What counts as a captured copy of a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.stores.copies import copies_among

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
def test_another_text_about_the_same_is_none(other: str) -> None:
    assert not is_copy(FACT, other)


def test_a_short_text_is_copied_when_all_of_it_is() -> None:
    assert is_copy("blue whale", "It was a Blue Whale, no doubt.")
    assert not is_copy("blue whale", "It was a whale, and blue.")


@given(st.text(), st.text())
def test_which_text_comes_first_makes_no_difference(text: str, other: str) -> None:
    assert is_copy(text, other) == is_copy(other, text)


def test_the_copies_among_many_are_named_in_their_order() -> None:
    others = {"a": f"Again: {FACT}", "b": "Something else.", "c": FACT, "d": ""}
    assert copies_among(FACT, others) == ["a", "c"]
