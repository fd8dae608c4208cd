from __future__ import annotations

from agentctx.rag.word_match import WordMatch
from benchmarks.injection_floor import Evidence, false_rate, recall_kept


def passage(is_relevant: bool, distance: float) -> Evidence:
    return Evidence(is_relevant, distance, WordMatch(0, 1))


def near(each: Evidence) -> bool:
    return each.distance is not None and each.distance <= 0.5


def test_recall_counts_the_questions_whose_answer_was_found() -> None:
    kept, lost, never_found = (
        [passage(True, 0.4)],
        [passage(True, 0.6), passage(False, 0.1)],
        [passage(False, 0.1)],
    )
    assert recall_kept([kept, lost, never_found], near) == 0.5


def test_a_false_injection_is_anything_at_all() -> None:
    assert false_rate([[passage(False, 0.6), passage(False, 0.5)], [passage(False, 0.6)], []], near) == 1 / 3
