from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.ingest.extract.base import ExtractLimits, ExtractRefusal, NotIngestible
from agentctx.ingest.extract.builder import Budget, TextBuilder, TimedBytes, clean, fence_around, table_row
from tests.ingest.extract.promises import SteppingClock


def budget(size: int = 100, **limits: float) -> Budget:
    return Budget(ExtractLimits(**limits), size)  # type: ignore[arg-type]  # counts and seconds alike


def test_places_are_noted_where_counting_lines_would_go_wrong() -> None:
    builder = TextBuilder("line", budget())
    builder.write("one\ntwo\n", 5)
    builder.write("three", 7)
    builder.append("\n\n")
    builder.write("four", 8)
    extracted = builder.finish(empty="")
    assert extracted.text == "one\ntwo\nthree\n\nfour"
    assert extracted.places == ((0, 5), (15, 8))


def test_pages_are_noted_when_they_change() -> None:
    builder = TextBuilder("page", budget())
    for text, page in (("a\nb", 2), ("c", 2), ("d", 3)):
        builder.write(text, page)
    assert builder.finish(empty="").places == ((0, 2), (4, 3))


def test_nothing_is_appended_to_nothing() -> None:
    builder = TextBuilder("line", budget())
    builder.append("\n")
    builder.write("text")
    assert builder.finish(empty="").places == ((0, 1),)


def test_blank_is_refused() -> None:
    builder = TextBuilder("line", budget())
    builder.write(" \n")
    with pytest.raises(NotIngestible, match="has nothing") as refused:
        builder.finish(empty="has nothing")
    assert refused.value.refusal == ExtractRefusal.EMPTY


def test_text_stops_at_the_limit_and_at_the_growth() -> None:
    builder = TextBuilder("line", budget(characters=10))
    with pytest.raises(NotIngestible, match="more than 10 characters") as refused:
        builder.write("12345678901")
    assert refused.value.refusal == ExtractRefusal.TOO_LARGE
    with pytest.raises(NotIngestible, match="more than 1,010,000 characters"):
        TextBuilder("line", budget(size=100)).write("x" * 1_010_001)


def test_reading_looks_at_the_clock() -> None:
    file = TimedBytes(b"0123456789", Budget(ExtractLimits(seconds=3, clock=SteppingClock()), 10))
    with pytest.raises(NotIngestible, match="not read within 3 s") as refused:
        list(iter(lambda: file.read(1), b""))
    assert refused.value.refusal == ExtractRefusal.TOO_SLOW


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("a\r\nb\rc\x0bd\x0ce", "a\nb\nc\nd\ne"),
        ("a\0b\x07c\x7f", "abc"),
        ("\ud83d\ude00", "\N{GRINNING FACE}"),
        ("a\ud83d", "a\ufffd"),
        ("tab\tand é", "tab\tand é"),
    ],
)
def test_characters_that_cannot_be_stored_are_cleaned(raw: str, cleaned: str) -> None:
    assert clean(raw) == cleaned


@given(st.text(alphabet=st.characters()))
def test_cleaned_text_can_be_stored(text: str) -> None:
    cleaned = clean(text)
    assert "\0" not in cleaned
    cleaned.encode()
    assert clean(cleaned) == cleaned


@pytest.mark.parametrize(
    ("cells", "row"),
    [(["a", "b"], "| a | b |"), (["a", "", "c\nd", "", " "], "| a |  | c d |"), (["", ""], ""), ([], "")],
)
def test_a_row_becomes_one_line(cells: list[str], row: str) -> None:
    assert table_row(cells) == row


@pytest.mark.parametrize(
    ("code", "fence"), [("a", "```"), ("``", "```"), ("```", "````"), ("`````", "``````")]
)
def test_a_fence_is_longer_than_any_inside(code: str, fence: str) -> None:
    assert fence_around(code) == fence
