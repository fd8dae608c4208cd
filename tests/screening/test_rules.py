"""The rules file keeps its form."""

from __future__ import annotations

import re

from agentctx.screening.rules import load_rules

_OUTSIDE_SETS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")


def test_every_flag_is_described_and_has_keywords_as_they_are_looked_for() -> None:
    for rule in load_rules().rules:
        assert re.fullmatch(r"[a-z-]+", rule.flag)
        assert rule.description
        assert rule.keywords
        assert [word for word in (*rule.keywords, *rule.also) if word != word.lower()] == []


def test_every_repeat_has_an_upper_bound() -> None:
    for rule in load_rules().rules:
        without_sets = _OUTSIDE_SETS.sub("x", rule.regex)
        assert re.search(r"[*+]|\{\d+,\}", without_sets) is None, rule.flag


def test_no_regex_matches_an_empty_text() -> None:
    assert [rule.flag for rule in load_rules().rules if rule.pattern.search("")] == []
