"""The probability that a passage answers, and what is injected because of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.relevance import (
    FURTHER,
    MAX_BEHIND,
    UNFAMILIAR,
    Calibration,
    Gate,
    Scale,
    falling,
    has_enough_words,
    log_odds,
    probability,
    relevance,
)
from agentctx.service.rag.word_match import WordMatch

NONE, ALL = WordMatch(0, 4), WordMatch(4, 4)
CALIBRATION = Calibration(Scale(), np.eye(12, dtype=np.float32))
shares = st.floats(0, 1)


@given(shares, st.floats(0, UNFAMILIAR - 0.1), st.integers(0, 4))
def test_nearness_and_words_count_for_a_passage_and_the_background_against_it(
    distance: float, level: float, matched: int
) -> None:
    words = WordMatch(matched, 4)
    there = relevance(CALIBRATION, distance, level, words)
    assert 0 < there < 1
    assert relevance(CALIBRATION, distance + 0.1, level, words) < there
    assert relevance(CALIBRATION, distance, level + 0.1, words) < there
    assert relevance(CALIBRATION, distance, level, ALL) >= there


def test_in_a_language_that_the_model_does_not_know_words_decide() -> None:
    strange = UNFAMILIAR + 0.12
    gate = Gate.of("normal", 35).best
    assert relevance(CALIBRATION, 0.44, strange, NONE) < gate, "nothing but similarity"
    assert relevance(CALIBRATION, 0.44, 0.25, NONE) > gate, "which suffices in a language that it knows"
    assert relevance(CALIBRATION, 0.5, strange, WordMatch(2, 3)) > gate


def test_a_prompt_that_is_near_to_everything_has_a_high_level() -> None:
    everything = np.full(12, 12**-0.5, dtype=np.float32)
    nothing = np.zeros(12, dtype=np.float32)
    assert CALIBRATION.level(everything) > CALIBRATION.level(nothing) == 0.0


def test_similarities_are_brought_to_the_scale_of_the_reference() -> None:
    narrow = Calibration(Scale(factor=5.0, offset=-4.0), CALIBRATION.background)
    assert narrow.similarity(0.9) == pytest.approx(0.5)
    assert relevance(narrow, 0.1, 0.2, NONE) == pytest.approx(relevance(CALIBRATION, 0.5, 0.2, NONE))


@pytest.mark.parametrize(
    ("matched", "total", "enough"),
    [(3, 9, True), (3, 10, False), (2, 2, True), (2, 4, True), (2, 5, False), (1, 1, False), (0, 0, False)],
)
def test_words_alone_decide_without_a_vector(matched: int, total: int, enough: bool) -> None:
    words = WordMatch(matched, total)
    assert has_enough_words(words) is enough
    assert (relevance(CALIBRATION, None, 0.0, words) >= Gate.of("careful", 35).best) is enough
    assert relevance(None, 0.1, 0.0, words) == relevance(CALIBRATION, None, 0.0, words)


def test_the_gate_grows_with_the_memory_and_falls_with_eagerness() -> None:
    gates = [Gate.of("normal", size).best for size in (0, 1, 35, 1_000, 100_000)]
    assert gates == sorted(gates)
    assert gates[2] == pytest.approx(0.2)
    assert Gate.of("eager", 35).best < Gate.of("normal", 35).best < Gate.of("careful", 35).best


def test_nothing_passes_unless_the_best_does() -> None:
    gate = Gate(best=0.5, further=FURTHER)
    assert gate.admits([0.4, 0.3], [0.0, 0.0]) == [False, False]
    assert gate.admits([0.1, 0.6, FURTHER], [0.0] * 3) == [False, True, True]
    assert gate.admits([], []) == []
    best_needs_no_more = Gate(best=0.05, further=0.3).admits([0.1, 0.05], [0.0, 0.0])
    assert best_needs_no_more == [True, False]


def test_a_further_passage_far_behind_the_best_does_not_pass() -> None:
    gate = Gate(best=0.5, behind=2.0)
    assert gate.admits([0.9, 0.3, 0.3], [0.0, 1.9, 2.1]) == [True, True, False]
    assert gate.admits([0.9], [9.0]) == [True], "the best passes, also if it is behind in its own query"


def test_the_best_may_be_farther_ahead_in_a_large_memory() -> None:
    allowed = [Gate.of("normal", size).behind for size in (0, 1, 35, 1_000, 100_000)]
    assert allowed[0] == allowed[1] == allowed[2] == MAX_BEHIND
    assert MAX_BEHIND < allowed[3] < allowed[4]


@given(st.floats(0.001, 0.999))
def test_log_odds_are_the_inverse_of_the_probability(p: float) -> None:
    assert probability(log_odds(p)) == pytest.approx(p)
    assert probability(-1_000) == 0.0


@given(st.lists(shares, max_size=12))
def test_the_figures_of_a_list_never_rise_and_keep_their_sum(relevances: list[float]) -> None:
    shown = falling(relevances)
    assert shown == sorted(shown, reverse=True)
    assert sum(shown) == pytest.approx(sum(relevances))
    assert falling(sorted(relevances, reverse=True)) == sorted(relevances, reverse=True)


def test_log_odds_are_finite() -> None:
    assert log_odds(0.0) < log_odds(1e-9) < log_odds(1 - 1e-9) < log_odds(1.0)
