import logging
import re
from typing import SupportsIndex

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentctx.text.chunking import ChunkerPositionAdapter, Document, RecursiveCharacterChunker, Span, spans_of
from agentctx.text.chunking.adapter import locate
from agentctx.text.chunking.base import PositionAwareChunker
from agentctx_testing.conformance.chunkers import ChunkerConformance, check_cover, texts, unhurried


class Fixed:
    """Cuts every text into the same pieces."""

    name = "MyChunker"

    def __init__(self, *pieces: str) -> None:
        self.pieces = list(pieces)

    def chunk(self, text: str) -> list[str]:
        return self.pieces


class Lines:
    name = "lines"

    def chunk(self, text: str) -> list[str]:
        return text.splitlines(keepends=True)


class TestConformance(ChunkerConformance):
    @pytest.fixture
    def chunker(self) -> PositionAwareChunker:
        return ChunkerPositionAdapter(Lines())


def positions(text: str, *pieces: str) -> list[tuple[int, int]]:
    chunks = ChunkerPositionAdapter(Fixed(*pieces)).chunk_with_positions(Document("doc", text))
    assert all(text[chunk.start : chunk.end] == chunk.content for chunk in chunks)
    return [(chunk.start, chunk.end) for chunk in chunks]


def test_chunker_position_adapter() -> None:
    document = Document("doc", "one two", {"lang": "en"})
    first, second = ChunkerPositionAdapter(Fixed("one", "two")).chunk_with_positions(document)
    assert (first.content, first.start, first.end) == ("one", 0, 3)
    assert (second.content, second.start, second.end) == ("two", 4, 7)
    assert (first.doc_id, first.metadata) == ("doc", {"lang": "en"})
    assert first.id.startswith("pa_chunk_")


def test_adapter_locates_chunks_sequentially() -> None:
    assert positions("AABBCC", "AA", "BB", "CC") == [(0, 2), (2, 4), (4, 6)]


def test_adapter_handles_non_locatable_chunks(caplog: pytest.LogCaptureFixture) -> None:
    adapter = ChunkerPositionAdapter(Fixed("top secret", "end"))
    with caplog.at_level(logging.WARNING):
        chunks = adapter.chunk_with_positions(Document("notes", "top   secret end"))
    assert [chunk.content for chunk in chunks] == ["end"]
    assert adapter.skipped_chunks == 1
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "MyChunker" in record.getMessage()
    assert "'notes'" in record.getMessage()
    assert "secret" not in record.getMessage()


def test_adapter_name_includes_wrapped_chunker_name() -> None:
    assert ChunkerPositionAdapter(Fixed()).name == "PositionAdapter(MyChunker)"


def test_skipped_chunks_add_up_over_documents() -> None:
    adapter = ChunkerPositionAdapter(Fixed("gone"))
    assert adapter.chunk_with_positions(Document("a", "x")) == []
    assert adapter.chunk_with_positions(Document("b", "y")) == []
    assert adapter.skipped_chunks == 2


def test_a_blank_chunk_is_a_chunk_like_any_other() -> None:
    assert positions("A\n\nB", "A", "\n\n", "B") == [(0, 1), (1, 3), (3, 4)]


@pytest.mark.parametrize("missing", [" ", ""])
def test_a_blank_or_empty_chunk_without_a_place_is_counted(
    missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    adapter = ChunkerPositionAdapter(Fixed("A", missing, "B"))
    with caplog.at_level(logging.WARNING):
        chunks = adapter.chunk_with_positions(Document("d", "AB"))
    assert spans_of(chunks) == [Span(0, 1), Span(1, 2)]
    assert adapter.skipped_chunks == len(caplog.records) == 1


def test_a_blank_chunk_takes_no_text_away_from_the_next() -> None:
    assert positions("AB C", "A", " ", "B", "C") == [(0, 1), (1, 2), (3, 4)]


def test_omitted_text_is_skipped_forward() -> None:
    assert positions("abab ab", "aba", "ab") == [(0, 3), (5, 7)]


def test_equal_chunks_get_their_own_places() -> None:
    assert positions("ab ab ab", "ab", "ab", "ab") == [(0, 2), (3, 5), (6, 8)]
    assert positions("AAAA", "AA", "AA") == [(0, 2), (2, 4)]


def test_overlapping_chunks_are_found() -> None:
    assert positions("one two three", "one two", "two three") == [(0, 7), (4, 13)]


def test_an_overlapping_chunk_is_not_taken_for_a_later_repetition() -> None:
    text = "one two three four two three"
    assert positions(text, "one two", "two three", "four two three") == [(0, 7), (4, 13), (14, 28)]


def test_no_chunk_is_placed_inside_the_one_before() -> None:
    assert positions("the cat and the dog sat", "the cat and the dog", "cat", "sat") == [(0, 19), (20, 23)]


def test_a_chunk_after_a_skipped_one_is_found() -> None:
    assert positions("one  two  three", "one", "normalised two", "three") == [(0, 3), (10, 15)]


@unhurried
@given(texts, st.integers(1, 20))
def test_pieces_without_overlap_are_found_where_they_were_cut(text: str, size: int) -> None:
    recursive = RecursiveCharacterChunker(chunk_size=size, chunk_overlap=0)
    adapter = ChunkerPositionAdapter(recursive)
    assert spans_of(adapter.chunk_with_positions(Document("d", text))) == recursive.spans(text)
    assert adapter.skipped_chunks == 0


@unhurried
@given(st.permutations([f"w{number}" for number in range(30)]), st.integers(8, 40))
def test_pieces_with_overlap_are_found_where_they_were_cut(words: list[str], size: int) -> None:
    text = " ".join(words)
    recursive = RecursiveCharacterChunker(chunk_size=size, chunk_overlap=size // 2)
    chunks = ChunkerPositionAdapter(recursive).chunk_with_positions(Document("d", text))
    assert spans_of(chunks) == recursive.spans(text)
    check_cover(text, spans_of(chunks))


def sequential(content: str, pieces: list[str]) -> list[Span | None]:
    """The rule of the specification, word for word."""
    found: list[Span | None] = []
    end = 0
    for piece in pieces:
        start = content.find(piece, end)
        end = start + len(piece) if start >= 0 else end
        found.append(Span(start, end) if start >= 0 else None)
    return found


@unhurried
@given(st.text(alphabet="ab ", max_size=40), st.lists(st.tuples(st.integers(1, 6), st.booleans())))
def test_where_a_sequential_search_finds_every_piece_its_places_count(
    content: str, cuts: list[tuple[int, bool]]
) -> None:
    pieces, start = [], 0
    for size, is_kept in cuts:
        if is_kept and (piece := content[start : start + size]):
            pieces.append(piece)
        start += size
    assert locate(content, pieces) == sequential(content, pieces)


@unhurried
@given(st.lists(st.sampled_from(["one", "two", "three", "a", "the"]), max_size=60), st.data())
def test_repeated_words_do_not_mislead_where_chunks_overlap(words: list[str], data: st.DataObject) -> None:
    content = " ".join(words)
    size = data.draw(st.integers(12, 40))
    recursive = RecursiveCharacterChunker(size, data.draw(st.integers(6, size - 1)))
    spans = recursive.spans(content)
    pieces = [content[span.start : span.end] for span in spans]
    # A chunk that the text repeats could stand in either place.
    assume(all(len(re.findall(f"(?={re.escape(piece)})", content)) == 1 for piece in pieces))
    assert locate(content, pieces) == spans


def test_locate_returns_none_for_missing_text() -> None:
    assert locate("abc", ["x"]) == [None]
    assert locate("abc", ["a", "a"]) == [Span(0, 1), None]
    assert locate("abc", []) == []


class _SearchedText(str):  # noqa: SLOT000 - a count is added
    """A text that counts the characters in which something was searched for in vain."""

    in_vain = 0

    def find(self, sub: str, start: SupportsIndex | None = 0, end: SupportsIndex | None = None) -> int:
        found = super().find(sub, start, end)
        if found < 0:
            self.in_vain += (len(self) if end is None else min(int(end), len(self))) - int(start or 0)
        return found


@pytest.mark.parametrize("paragraphs", [1_000, 4_000])
def test_pieces_that_are_not_found_are_searched_in_linear_time(paragraphs: int) -> None:
    text = _SearchedText("".join(f"Paragraph  {number}.\r\nIt ends.\r\n" for number in range(paragraphs)))
    pieces = [f"{piece}\n" for piece in "".join(text).replace("  ", " ").replace("\r", "").splitlines()]
    placement = locate(text, [*pieces, "It ends."])
    assert placement[-1] is not None
    assert text.in_vain <= 200 * len(text)


def test_what_is_found_after_many_that_are_not_is_in_its_place() -> None:
    text = "".join(f"Paragraph  {number}. It ends at {number}.\n" for number in range(2_000))
    pieces = [piece for number in range(2_000) for piece in (f"Paragraph {number}.", f"It ends at {number}.")]
    placement = locate(text, pieces)
    assert placement[0::2] == [None] * 2_000
    assert [text[span.start : span.end] for span in placement[1::2] if span] == pieces[1::2]
