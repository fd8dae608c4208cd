from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx_inspector.diffs import MAX_TOKENS, Segment, changed_fields, changes, differences
from agentctx_inspector_tests.test_filters import view

TEXTS = st.text(alphabet="ab \n", max_size=60)


def test_words_are_compared() -> None:
    assert differences("deploys on Friday at noon", "deploys on Monday at noon") == [
        Segment("same", "deploys on "),
        Segment("removed", "Friday "),
        Segment("added", "Monday "),
        Segment("same", "at noon"),
    ]


@given(TEXTS, TEXTS)
def test_the_segments_are_both_versions(before: str, now: str) -> None:
    segments = differences(before, now) or []
    assert "".join(each.text for each in segments if each.kind != "added") == before
    assert "".join(each.text for each in segments if each.kind != "removed") == now


def test_long_unchanged_text_is_left_out() -> None:
    same = "word " * 400
    kinds = [each.kind for each in differences(f"{same}old", f"{same}new") or []]
    assert kinds == ["same", "gap", "same", "removed", "added"]


def test_a_long_text_is_compared_by_lines_and_a_huge_one_not_at_all() -> None:
    lines = ["a b c d e f g\n"] * MAX_TOKENS
    assert differences("".join(lines[:-1]), "".join(lines)) is not None
    assert differences("a\n" * (MAX_TOKENS + 1), "b\n" * (MAX_TOKENS + 1)) is None


@pytest.mark.timeout(20)
def test_a_text_that_repeats_itself_is_compared_soon() -> None:
    assert differences("a " * 2_000, "b a " * 1_000)


def test_changed_fields_are_named_with_both_values() -> None:
    before = {"tags": ["a"], "category": "rule", "file": {"size": 1}}
    now = {"tags": ["a", "b"], "source": "x", "file": {"size": 2}}
    assert list(changed_fields(before, now)) == [
        ("tags", "a", "a, b"),
        ("category", "rule", ""),
        ("source", "", "x"),
    ]


def test_each_version_is_compared_with_the_one_before() -> None:
    newest, oldest = changes([view("1", version=2, content="new"), view("1", content="old")])
    assert newest.changes_text
    assert oldest.segments == [Segment("same", "old")]
    assert not oldest.changes_text
