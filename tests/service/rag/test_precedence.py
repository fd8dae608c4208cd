"""The order of what is injected: purpose before capture, newer before older."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.candidate import Candidate, Trace
from agentctx.service.rag.duplicates import ConversationTexts
from agentctx.service.rag.injection import InjectionRules, select_candidates
from agentctx.service.rag.precedence import arranged
from agentctx.service.rag.relevance import Gate
from agentctx.storage.search import ResolvedChunk
from tests.service.rag.test_select import entry

OLD, NEW = "The API rate limit is 100 requests per minute.", "The API rate limit is 250 requests per minute."


def found(*passages: tuple[str, dict[str, Any]]) -> dict[int, ResolvedChunk]:
    return {
        at: ResolvedChunk(chunk=at, start=0, end=len(text), content=text, entry=replace(entry(at), **fields))
        for at, (text, fields) in enumerate(passages)
    }


def candidates(passages: dict[int, ResolvedChunk], *relevance: float) -> list[Candidate]:
    given = relevance or [0.9] * len(passages)
    return [Candidate(at, passages[at].entry.id, None, 0.3, relevance=each) for at, each in enumerate(given)]


def order(*passages: tuple[str, dict[str, Any]], question: str = "") -> list[int]:
    given = found(*passages)
    return [each.chunk for each in arranged(candidates(given), given, question)]


def chosen(passages: dict[int, ResolvedChunk], relevance: list[float], rules: InjectionRules) -> list[int]:
    ranked = candidates(passages, *relevance)
    return [c.chunk for c in select_candidates(ranked, passages, rules, Trace(ranked), max_per_entry=2)]


def test_what_was_saved_on_purpose_comes_before_captured_turns() -> None:
    turn, saved, page = (
        {"origin": "capture"},
        {"origin": "agent"},
        {"origin": "document", "trust": "external"},
    )
    assert order(("a turn", turn), ("a page", page), ("a turn more", turn), ("a decision", saved)) == [
        3,
        1,
        0,
        2,
    ]


def test_the_newer_of_two_versions_comes_first() -> None:
    assert order((OLD, {"updated": 1}), ("Another fact.", {}), (NEW, {"updated": 2})) == [2, 0, 1]
    assert order((OLD, {"updated": 2}), (NEW, {"updated": 1})) == [0, 1]


def test_dates_in_both_texts_say_which_is_newer_whenever_they_were_saved() -> None:
    before = "Rates as of 1 January 2025: partner 290, associate 190, paralegal 85."
    after = "Rates as of 1 January 2026: partner 320, associate 210, paralegal 95."
    assert order((before, {"updated": 2}), (after, {"updated": 1})) == [1, 0]


@pytest.mark.parametrize("newer", [{"trust": "external"}, {"namespace": "other"}])
def test_less_trusted_and_foreign_entries_replace_nothing(newer: dict[str, Any]) -> None:
    assert order((OLD, {"updated": 1}), (NEW, {"updated": 2, **newer})) == [0, 1]


def test_a_version_that_lacks_a_word_of_the_question_is_about_something_else() -> None:
    one = "Restore the shop database on Mondays at nine, from staging."
    other = "Restore the shop database on Mondays at nine, from the archive."
    assert order((one, {"updated": 1}), (other, {"updated": 2}), question="When is it restored?") == [1, 0]
    assert order((one, {"updated": 1}), (other, {"updated": 2}), question="Restore from staging?") == [0, 1]


def test_no_older_version_is_injected_alone() -> None:
    passages = found((OLD, {"updated": 1}), (NEW, {"updated": 2}), ("Another fact.", {}))
    gated = InjectionRules(question="rate limit?", gate=Gate(best=0.5, further=0.5))
    assert chosen(passages, [0.6, 0.4, 0.4], gated) == [1, 0]
    assert chosen(passages, [0.4, 0.6, 0.4], gated) == [1]
    known = replace(gated, conversation=ConversationTexts([NEW]))
    assert chosen(passages, [0.6, 0.4, 0.4], known) == [], "the conversation has what holds now"


def test_of_near_duplicates_the_one_saved_on_purpose_stays() -> None:
    passages = found(
        ("User: We deploy on Tuesdays at nine.", {"origin": "capture"}),
        ("Deploys happen on Tuesdays at 9.", {}),
        ("We deploy on Tuesdays, at nine!", {"origin": "capture"}),
    )
    assert chosen(passages, [0.9, 0.8, 0.7], InjectionRules()) == [1]


@given(
    st.lists(st.tuples(st.sampled_from([OLD, NEW, "x y z"]), st.booleans(), st.integers(0, 3)), max_size=6)
)
def test_nothing_is_lost_or_added(drawn: list[tuple[str, bool, int]]) -> None:
    passages = [
        (text, {"origin": "capture" if captured else "agent", "updated": updated})
        for text, captured, updated in drawn
    ]
    assert sorted(order(*passages)) == list(range(len(passages)))
