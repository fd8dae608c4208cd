import json
from itertools import accumulate
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.ingest.parts import PartLimits, TextPart, split
from agentctx.storage.location import locate
from agentctx.wire import PlaceUnit

TINY = PartLimits(characters=10, bytes=40, places=3)
LINES = ((0, 1),)


def where(part: TextPart, unit: PlaceUnit, at: int) -> int:
    """Return the place that the daemon names for a position in a part."""
    attributes = {"source": "x", "file": {"unit": unit, "places": part.places}}
    location = locate(attributes, part.content, at, at + 1)
    assert location is not None
    return location.first


@pytest.mark.parametrize(
    ("text", "contents", "first_lines"),
    [
        ("short\n", ["short\n"], [1]),
        ("one\ntwo\nthree\n", ["one\ntwo\n", "three\n"], [1, 3]),
        ("0123456789abcdef\nx", ["0123456789", "abcdef\nx"], [1, 1]),
        ("a\n" + "\n" * 19 + "b", ["a\n\n\n\n\n\n\n\n\n", "\nb"], [1, 20]),
        ("é" * 9, ["é" * 9], [1]),
        ("\x01" * 9, ["\x01" * 6, "\x01" * 3], [1, 1]),
    ],
)
def test_parts_end_after_line_breaks(text: str, contents: list[str], first_lines: list[int]) -> None:
    parts = split(text, "line", LINES, TINY)
    assert [part.content for part in parts] == contents
    assert [where(part, "line", 0) for part in parts] == first_lines


def test_pages_go_with_their_text() -> None:
    text = "page one\npage two\npage three"
    parts = split(text, "page", ((0, 1), (9, 2), (18, 7)), TINY)
    assert [(part.content, part.places) for part in parts] == [
        ("page one\n", [[0, 1]]),
        ("page two\n", [[0, 2]]),
        ("page three", [[0, 7]]),
    ]


def test_a_part_has_no_more_places_than_the_daemon_takes() -> None:
    text = "ab" * 50
    places = tuple((at * 2, at + 1) for at in range(50))
    parts = split(text, "cell", places, PartLimits(characters=1_000, bytes=10_000, places=7))
    assert max(len(part.places) for part in parts) == 7
    assert "".join(part.content for part in parts) == text


def test_a_text_of_a_usual_file_is_one_part() -> None:
    assert split("x" * 99_999 + "\n", "line", LINES) == [TextPart("x" * 99_999 + "\n", [[0, 1]])]


TEXTS = st.text(st.sampled_from('ab \n\n\r\té🙂\x01"\\'), max_size=200)
LIMITS = st.builds(PartLimits, st.integers(1, 40), st.integers(8, 90), st.integers(1, 6))


@st.composite
def placed_texts(draw: st.DrawFn) -> tuple[str, PlaceUnit, list[tuple[int, int]]]:
    text = draw(TEXTS)
    steps = draw(st.lists(st.integers(1, 30), max_size=12))
    offsets = [0, *(at for at in accumulate(steps) if at < len(text))]
    numbers = draw(st.lists(st.integers(1, 500), min_size=len(offsets), max_size=len(offsets)))
    return text, draw(st.sampled_from(get_args(PlaceUnit))), list(zip(offsets, numbers, strict=True))


@given(placed_texts(), LIMITS)
def test_every_character_is_somewhere_and_its_place_is_right(
    placed: tuple[str, PlaceUnit, list[tuple[int, int]]], limits: PartLimits
) -> None:
    text, unit, places = placed
    whole = TextPart(text, [list(place) for place in places])
    at = 0
    for part in split(text, unit, places, limits):
        begins = text.index(part.content, at)
        assert not text[at:begins].strip(), "only blank pieces may be left out"
        for offset in range(len(part.content)):
            assert where(part, unit, offset) == where(whole, unit, begins + offset)
        at = begins + len(part.content)
    assert not text[at:].strip()


@given(placed_texts(), LIMITS)
def test_no_part_is_over_a_limit(
    placed: tuple[str, PlaceUnit, list[tuple[int, int]]], limits: PartLimits
) -> None:
    for part in split(*placed, limits):
        encoded = json.dumps(part.content, ensure_ascii=False).encode()
        assert part.content.strip()
        assert len(part.content) <= limits.characters
        assert len(encoded) <= limits.bytes or len(part.content) == 1
        assert len(part.places) <= limits.places
        assert part.places[0][0] == 0
