"""The comparison on which all kill suites rely."""

from __future__ import annotations

import pytest

from tests.durability.ledger import Attempt, Ledger, Version, broken_promises

ONE = Version(1, "one")


def ledger(*, attempt: Attempt | None = None) -> Ledger:
    return Ledger(live={"a": ONE}, forgotten={"gone"}, open=attempt)


def test_acknowledged_writes_are_present() -> None:
    assert broken_promises([ledger()], {"a": ONE}) == []


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ({}, "lost"),
        ({"a": Version(1, "other")}, "lost"),
        ({"a": Version(2, "one")}, "lost"),
        ({"a": ONE, "gone": ONE}, "came back"),
        ({"a": ONE, "b": Version(1, "new")}, "saved twice, or by nobody"),
    ],
)
def test_broken_promises_are_reported(stored: dict[str, Version], said: str) -> None:
    (broken,) = broken_promises([ledger()], stored)
    assert said in broken


def test_a_save_without_an_answer_may_be_there_once() -> None:
    unanswered = ledger(attempt=Attempt(creates=("new",)))
    new = Version(1, "new")
    assert broken_promises([unanswered], {"a": ONE}) == []
    assert broken_promises([unanswered], {"a": ONE, "b": new}) == []
    (broken,) = broken_promises([unanswered], {"a": ONE, "b": new, "c": new})
    assert "2 times" in broken


@pytest.mark.parametrize(("becomes", "after"), [("two", {"a": Version(2, "two")}), (None, {})])
def test_a_change_without_an_answer_happened_or_did_not(
    becomes: str | None, after: dict[str, Version]
) -> None:
    unanswered = ledger(attempt=Attempt(entry="a", becomes=becomes))
    assert broken_promises([unanswered], {"a": ONE}) == []
    assert broken_promises([unanswered], after) == []
    assert broken_promises([unanswered], {"a": Version(2, "three")}) != []
