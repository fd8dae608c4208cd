"""Which passages the judge reads, and what its scores do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.judging import (
    LEAST_RELEVANCE,
    LONGEST_PASSAGE,
    LOOKED_AT,
    MOST_READ,
    judged,
    left_open,
    text_to_judge,
)
from agentctx.service.rag.prompt import FIRST_WINDOW
from agentctx.service.rag.relevance import UNFAMILIAR, log_odds
from tests.service.rag.test_finding import text

FAMILIAR = UNFAMILIAR - 0.1
TEXTS = {chunk: text(chunk) for chunk in range(12)}
relevances = st.lists(st.floats(0.001, 0.999), max_size=12)


def candidates(relevances: list[float]) -> list[Candidate]:
    return [Candidate(at, f"e{at}", None, 0.5, relevance=each) for at, each in enumerate(relevances)]


@given(relevances)
def test_the_most_relevant_of_the_first_are_read_and_few_of_them(given_relevances: list[float]) -> None:
    read = left_open(candidates(given_relevances), TEXTS, FAMILIAR)
    worth = [each for each in given_relevances[:LOOKED_AT] if each >= LEAST_RELEVANCE]
    assert [each.relevance for each in read] == sorted(worth, reverse=True)[:MOST_READ]


@pytest.mark.parametrize("level", [None, UNFAMILIAR + 0.01])
def test_nothing_is_read_without_a_calibrated_model_or_in_a_language_that_it_does_not_know(
    level: float | None,
) -> None:
    assert left_open(candidates([0.5, 0.4]), TEXTS, level) == []


def test_what_words_alone_decided_and_turns_of_conversations_are_not_read() -> None:
    by_words, turn, other = candidates([0.5, 0.5, 0.5])
    ranked = [by_words._replace(by_words=True), turn._replace(is_turn=True), other]
    assert left_open(ranked, TEXTS, FAMILIAR) == [other]


def test_a_passage_of_which_it_would_read_a_part_is_not_read() -> None:
    long = {0: replace(text(0), content="word " * LONGEST_PASSAGE), 1: text(1)}
    ranked = candidates([0.5, 0.4])
    assert left_open(ranked, long, FAMILIAR) == ranked[1:]


@given(relevances, st.data())
def test_scores_reorder_only_the_places_of_what_was_read(
    given_relevances: list[float], data: st.DataObject
) -> None:
    ranked = candidates(given_relevances)
    read = data.draw(st.sets(st.sampled_from(range(len(ranked))))) if ranked else set()
    scores = {chunk: data.draw(st.floats(-9, 9)) for chunk in read}
    after = judged(ranked, scores, "a question")
    assert {each.chunk for each in after} == {each.chunk for each in ranked}
    places = [each for each in after if each.by_judge]
    assert [each.relevance for each in places] == sorted((each.relevance for each in places), reverse=True)
    assert [each for each in after if not each.by_judge] == [
        each for each in ranked if each.chunk not in read
    ]


@given(st.floats(0.01, 0.99), st.floats(-6, 6))
def test_a_higher_score_and_a_higher_relevance_by_the_rules_both_count_for_a_passage(
    relevance: float, score: float
) -> None:
    [there] = judged(candidates([relevance]), {0: score}, "a question")
    assert 0 < there.relevance < 1
    assert judged(candidates([relevance]), {0: score + 1}, "a question")[0].relevance > there.relevance
    assert judged(candidates([relevance * 0.9]), {0: score}, "a question")[0].relevance < there.relevance


@pytest.mark.parametrize(
    ("prompt", "is_behind"),
    [("which lamp is red", True), ("Tell Anna, the Bakers and the Polish school", False)],
)
def test_the_judge_moves_a_passage_behind_the_best_unless_it_may_answer_a_part(
    prompt: str, is_behind: bool
) -> None:
    ranked = [each._replace(behind=0.5) for each in candidates([0.6, 0.5])]
    best, other = judged(ranked, {0: 6.0, 1: -1.0}, prompt)
    assert best.behind == 0
    judged_apart = log_odds(best.relevance) - log_odds(other.relevance)
    assert other.behind == pytest.approx(judged_apart if is_behind else 0.5)


def test_the_judge_reads_the_prose_around_a_paste_and_a_short_prompt_as_it_is() -> None:
    code = "\n".join(f"    value_{line} = compute({line}, mode='fast')" for line in range(60))
    assert text_to_judge("  where do the logs go? ") == "where do the logs go?"
    asked = text_to_judge(f"{code}\n\nWhy does this take so long on the second server")
    assert asked == "Why does this take so long on the second server"
    assert code.strip().startswith(text_to_judge(code))
    assert len(text_to_judge(code * 100)) <= FIRST_WINDOW
