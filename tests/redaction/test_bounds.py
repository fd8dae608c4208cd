from __future__ import annotations

import pytest

from agentctx.redaction.bounds import unbounded


@pytest.mark.parametrize(
    "regex",
    [
        "abc",
        "a{1,9}",
        "a?b",
        r"\+\*",
        "[*+]{3}",
        "[]*]{2}",
        "[^]*]",
        "(?:ab?)c",
        "(?:a{1,3})?",
        "(?P<x>a{2}){3}",
        "(?:(?i:x)a{2,3})",
        "(?<=a)(?!b)(?<!c)x",
        "x{,5}",
        r"\(a{1,2}\){2}",
        "a{3}+",
    ],
)
def test_what_has_bounds_is_taken(regex: str) -> None:
    assert unbounded(regex) is None


@pytest.mark.parametrize(
    "regex",
    [
        "a*",
        "a+",
        "a+?",
        "a{2,}",
        "(a)*",
        "[ab]+",
        r"\\+",
        "a{1,70000}",
        "(?:a{1,3}){2,3}",
        "(?:a?){9}",
        "(?:(?:a?)b){2}",
        "(a{1,2}|b){2,4}",
    ],
)
def test_what_has_none_is_named(regex: str) -> None:
    assert "repeats" in (unbounded(regex) or "")
