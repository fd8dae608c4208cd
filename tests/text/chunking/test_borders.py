import regex
from hypothesis import given
from hypothesis import strategies as st

from agentctx.text.chunking.borders import (
    NOWHERE,
    Borders,
    PositionBorders,
    SeparatorBorders,
    first_grapheme_border,
    last_grapheme_border,
    separator_levels,
)
from agentctx_testing.conformance.chunkers import texts, unhurried


def grapheme_borders(text: str) -> list[int]:
    return [0, *(match.end() for match in regex.finditer(r"\X", text))]


@unhurried
@given(texts.filter(bool), st.data())
def test_grapheme_borders_match_the_whole_text(text: str, data: st.DataObject) -> None:
    borders = grapheme_borders(text)
    anchor = data.draw(st.sampled_from(borders[:-1]))
    low = data.draw(st.integers(anchor + 1, len(text)))
    high = data.draw(st.integers(low, len(text)))
    inside = [border for border in borders if low <= border <= high]
    assert first_grapheme_border(text, anchor, low, high) == min(inside, default=NOWHERE)
    assert last_grapheme_border(text, anchor, low, high) == max(inside, default=NOWHERE)


def check_against(borders: Borders, positions: list[int], low: int, high: int) -> None:
    inside = [position for position in positions if low <= position <= high]
    assert borders.first(low, high) == min(inside, default=NOWHERE)
    assert borders.last(low, high) == max(inside, default=NOWHERE)


@unhurried
@given(st.lists(st.integers(0, 30), unique=True).map(sorted), st.integers(0, 30), st.integers(0, 30))
def test_position_borders_are_the_positions(positions: list[int], low: int, high: int) -> None:
    check_against(PositionBorders(positions), positions, low, high)


@unhurried
@given(texts, st.integers(1, 60), st.integers(0, 60))
def test_separator_borders_are_after_separators(text: str, low: int, high: int) -> None:
    whole = set(grapheme_borders(text))
    after = [
        position
        for position in range(1, len(text) + 1)
        if text[:position].endswith((". ", " ", "\n")) and position in whole
    ]
    check_against(SeparatorBorders(text, (". ", " ", "\n")), after, low, min(high, len(text)))


def test_a_separator_inside_a_grapheme_is_not_a_border() -> None:
    borders = SeparatorBorders("a \u0301b c", [" "])
    assert (borders.first(1, 6), borders.last(1, 6)) == (5, 5)
    assert (borders.first(1, 4), borders.last(1, 4)) == (NOWHERE, NOWHERE)


def test_separators_that_do_not_occur_make_no_level() -> None:
    assert separator_levels("a b", [("\n",), (" ", ", ")]) == [SeparatorBorders("a b", [" "])]
