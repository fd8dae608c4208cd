from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.storage.location import locate
from agentctx.wire import Location

TEXT = "one\ntwo\nthree\nfour\n"


def attributes(*places: list[int], unit: str = "line") -> dict[str, Any]:
    return {"source": "/d/a.md", "file": {"unit": unit, "places": list(places)}}


@pytest.mark.parametrize(
    ("passage", "first", "last"),
    [("one", 1, 1), ("two\nthree", 2, 3), ("four", 4, 4), ("four\n", 4, 4), (TEXT, 1, 4)],
)
def test_lines_of_a_plain_file_are_counted(passage: str, first: int, last: int) -> None:
    start = TEXT.index(passage)
    found = locate(attributes([0, 1]), TEXT, start, start + len(passage))
    assert found == Location(path="/d/a.md", unit="line", first=first, last=last)


def test_a_later_part_starts_at_its_recorded_line() -> None:
    found = locate(attributes([0, 101]), TEXT, 4, 7)
    assert found is not None
    assert (found.first, found.last) == (102, 102)


def test_line_breaks_do_not_advance_pages() -> None:
    found = locate(attributes([0, 1], [8, 2], unit="page"), TEXT, 4, 14)
    assert found == Location(path="/d/a.md", unit="page", first=1, last=2)


@pytest.mark.parametrize("without", [{}, {"source": "x"}, {"file": None}])
def test_an_entry_without_a_file_has_no_location(without: dict[str, Any]) -> None:
    assert locate(without, TEXT, 0, 3) is None


@given(st.text(alphabet="ab\n", min_size=1, max_size=60), st.data())
def test_the_location_covers_the_passage(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    found = locate(attributes([0, 1]), text, start, end)
    assert found is not None
    lines = text.split("\n")
    assert text[start:end] in "\n".join(lines[found.first - 1 : found.last]) + "\n"
