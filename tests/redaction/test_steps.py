from __future__ import annotations

import pytest

from agentctx.redaction.steps import ENDLESS, MOST_STEPS, steps


@pytest.mark.parametrize(
    "regex",
    [
        "acme_[a-z0-9]{32}",
        "a{0,5000}-a{0,5000}-a{0,5000}-",
        r"\w{1,5000}\.\w{1,5000}\.\w{1,5000}",
        "(?:ab|cd){1,5000}e",
        "(?:key|token)[^\\n]{0,60}(?P<secret>[a-f0-9]{32,64})",
        "a{0,5000}+a{0,5000}+b",
        "[A-Z ]{0,5000}PRIVATE KEY-{5}",
        "(?=a{1,9})a{1,9}b?",
        "x" * 4_096,
        "acme_(?:key)[a-z]{0,700}[a-z]{0,700}!",
    ],
)
def test_what_can_be_left_in_one_place_only_is_taken(regex: str) -> None:
    assert steps(regex, ends_anywhere=False) <= MOST_STEPS


@pytest.mark.parametrize(
    "regex",
    [
        "a{0,5000}a{0,5000}a{0,5000}b",
        "a{0,5000}a{0,5000}b",
        "a{0,5000}(?:a{0,5000})?b",
        "a{0,5000}(x|a{0,5000})b",
        r"\w{0,5000}[a-f]{0,5000}b",
        r"\x61{0,5000}a{0,5000}b",
        "\u00e4{0,5000}\u00e4{0,5000}b",
        "[\u0430-\u044f]{0,5000}[\u0430-\u043f]{0,5000}b",
        "(?i:A{0,5000})a{0,5000}b",
        "(?:a|a){0,30}b",
        "(?:ab?|a){1,1}" * 30 + "c",
        "(?x:a{0,5000} a{0,5000} b)",
        "(a)(?P<n>b)(?P=n){0,5000}b{0,5000}c",
        "aaaaaaaa[a-z]{0,700}[a-z]{0,700}!",
        "((?:ab)[a-z]{0,700})cdefgh[a-z]{0,700}!",
        "a?" * 99 + "b",
        "a?" * 2_000 + "b",
    ],
)
def test_what_can_be_divided_in_many_ways_is_not(regex: str) -> None:
    assert steps(regex, ends_anywhere=True) > MOST_STEPS


def test_what_comes_behind_can_undo_a_match_of_a_whole_word() -> None:
    regex = "[ab]{1,5000}[ab]{0,5000}"
    assert steps(regex, ends_anywhere=True) <= MOST_STEPS < steps(regex, ends_anywhere=False) <= ENDLESS
