from __future__ import annotations

from typing import Literal

import pytest

from agentctx.rag.floor import CALIBRATED, NO_DISTANCE, Floor, choose_floor
from agentctx.rag.word_match import WordMatch

DEFAULT_MODEL = "all-MiniLM-L6-v2"


@pytest.mark.parametrize(
    ("configured", "model", "floor"),
    [
        ("auto", DEFAULT_MODEL, CALIBRATED[DEFAULT_MODEL]),
        ("auto", "somebody-elses", NO_DISTANCE),
        ("auto", None, NO_DISTANCE),
        (0.7, DEFAULT_MODEL, Floor(0.7)),
        (0, DEFAULT_MODEL, None),
    ],
)
def test_the_floor_of_the_config_else_of_the_model(
    configured: Literal["auto"] | float, model: str | None, floor: Floor | None
) -> None:
    assert choose_floor(configured, model) == floor


@pytest.mark.parametrize(
    ("distance", "matched", "passes"),
    [(0.9, 4, True), (0.91, 4, False), (0.65, 2, True), (0.66, 2, False), (0.4, 0, True), (0.41, 0, False)],
)
def test_what_has_the_words_may_be_farther(distance: float, matched: int, passes: bool) -> None:
    assert Floor(0.9, words_worth=0.5).passes(distance, WordMatch(matched, 4)) is passes


@pytest.mark.parametrize(
    ("matched", "wanted", "passes"),
    [(3, 9, True), (3, 10, False), (2, 2, True), (2, 3, False), (1, 1, False), (0, 0, False), (6, 40, True)],
)
@pytest.mark.parametrize("floor", [NO_DISTANCE, CALIBRATED[DEFAULT_MODEL], Floor(0.1)])
def test_without_a_distance_words_decide(floor: Floor, matched: int, wanted: int, passes: bool) -> None:
    assert floor.passes(None, WordMatch(matched, wanted)) is passes


def test_any_distance_passes_where_there_is_no_floor_for_it() -> None:
    assert NO_DISTANCE.passes(2.0, WordMatch(0, 5))
