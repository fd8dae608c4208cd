"""The rules file keeps its form."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from agentctx.text.screening.rules import load_rules
from agentctx.text.screening.visible import visible_text
from tests.text.screening.corpus import WRITTEN, payloads

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


WORDS = sorted({word for rule in load_rules().rules for word in (*rule.keywords, *rule.also)})


@given(st.lists(st.sampled_from([*WORDS, " ", "you must ", "the ", "\n"]), max_size=20).map("".join))
def test_a_rule_is_tried_wherever_one_of_its_keywords_is(plain: str) -> None:
    rules = load_rules()
    tried = [rule for rule in rules.rules if any(word in plain for word in rule.keywords)]
    assert rules.matching_flags(plain) == [rule.flag for rule in tried if rule.matches(plain)]


def test_a_rule_has_a_keyword_for_whatever_its_regex_matches() -> None:
    rules = load_rules()
    texts = [visible_text(text) for text in (*WRITTEN, *(each.text for each in payloads()))]
    missing = {
        (rule.flag, text)
        for text in texts
        for rule in rules.rules
        if rule.pattern.search(text) and rule.flag not in rules.matching_flags(text)
    }
    assert missing == set()
