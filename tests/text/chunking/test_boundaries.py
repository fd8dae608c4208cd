import regex
from hypothesis import given
from hypothesis import strategies as st

from agentctx.text.chunking.boundaries import (
    NOWHERE,
    Boundaries,
    PositionBoundaries,
    SeparatorBoundaries,
    first_grapheme_boundary,
    last_grapheme_boundary,
    separator_levels,
)
from agentctx_testing.conformance.chunkers import texts, unhurried


def grapheme_boundaries(text: str) -> list[int]:
    return [0, *(match.end() for match in regex.finditer(r"\X", text))]


@unhurried
@given(texts.filter(bool), st.data())
def test_grapheme_boundaries_match_the_whole_text(text: str, data: st.DataObject) -> None:
    boundaries = grapheme_boundaries(text)
    anchor = data.draw(st.sampled_from(boundaries[:-1]))
    low = data.draw(st.integers(anchor + 1, len(text)))
    high = data.draw(st.integers(low, len(text)))
    inside = [boundary for boundary in boundaries if low <= boundary <= high]
    assert first_grapheme_boundary(text, anchor, low, high) == min(inside, default=NOWHERE)
    assert last_grapheme_boundary(text, anchor, low, high) == max(inside, default=NOWHERE)


def check_against(boundaries: Boundaries, positions: list[int], low: int, high: int) -> None:
    inside = [position for position in positions if low <= position <= high]
    assert boundaries.first(low, high) == min(inside, default=NOWHERE)
    assert boundaries.last(low, high) == max(inside, default=NOWHERE)


@unhurried
@given(st.lists(st.integers(0, 30), unique=True).map(sorted), st.integers(0, 30), st.integers(0, 30))
def test_position_boundaries_are_the_positions(positions: list[int], low: int, high: int) -> None:
    check_against(PositionBoundaries(positions), positions, low, high)


@unhurried
@given(texts, st.integers(1, 60), st.integers(0, 60))
def test_separator_boundaries_are_after_separators(text: str, low: int, high: int) -> None:
    whole = set(grapheme_boundaries(text))
    after = [
        position
        for position in range(1, len(text) + 1)
        if text[:position].endswith((". ", " ", "\n")) and position in whole
    ]
    check_against(SeparatorBoundaries(text, (". ", " ", "\n")), after, low, min(high, len(text)))


def test_a_separator_inside_a_grapheme_is_not_a_boundary() -> None:
    boundaries = SeparatorBoundaries("a \u0301b c", [" "])
    assert (boundaries.first(1, 6), boundaries.last(1, 6)) == (5, 5)
    assert (boundaries.first(1, 4), boundaries.last(1, 4)) == (NOWHERE, NOWHERE)


def test_separators_that_do_not_occur_make_no_level() -> None:
    assert separator_levels("a b", [("\n",), (" ", ", ")]) == [SeparatorBoundaries("a b", [" "])]
