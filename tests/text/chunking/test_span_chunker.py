import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentctx.errors import InvalidInput
from agentctx.text.chunking import (
    Document,
    RecursiveCharacterChunker,
    generate_chunk_id,
    generate_pa_chunk_id,
)
from agentctx.text.chunking.base import PositionAwareChunker
from agentctx.text.chunking.span_chunker import chunk_id_at
from agentctx_testing.conformance.chunkers import (
    PIECES,
    ChunkerConformance,
    check_positions,
    check_promises,
    texts,
    unhurried,
    weigh_by_script,
)

PROSE = "The daemon keeps what it was told. It answers in time! Does it? " * 60
LIST_OF_SEPARATORS = [["\n\n", "\n", ". ", " ", ""], [" "], [], [""], [". ", "a"], ["\n\n"]]


class TestConformance(ChunkerConformance):
    size, overlap = 20, 5

    @pytest.fixture
    def chunker(self) -> PositionAwareChunker:
        return RecursiveCharacterChunker(20, 5)


def test_recursive_character_chunker() -> None:
    chunker = RecursiveCharacterChunker()
    assert chunker.name == "RecursiveCharacter(size=1000, overlap=200)"
    assert chunker.separators == ("\n\n", "\n", ". ", " ", "")
    assert RecursiveCharacterChunker(80, 0).name == "RecursiveCharacter(size=80, overlap=0)"


def test_chunk_text_with_default_settings() -> None:
    text = PROSE[:3000]
    chunks = RecursiveCharacterChunker().chunk(text)
    assert len(chunks) >= 3
    assert all(len(chunk) <= 1000 for chunk in chunks)
    assert all(chunk.endswith(". ") for chunk in chunks[:-1])


def test_chunk_with_positions_tracks_offsets() -> None:
    document = Document("doc", "\n\n  " + PROSE)
    chunks = RecursiveCharacterChunker().chunk_with_positions(document)
    assert len(chunks) > 3
    for chunk in chunks:
        assert document.content[chunk.start : chunk.end] == chunk.content


@pytest.mark.parametrize(("size", "overlap"), [(100, 100), (100, 200)])
def test_reject_invalid_overlap(size: int, overlap: int) -> None:
    with pytest.raises(InvalidInput, match="chunk_overlap must be less than chunk_size"):
        RecursiveCharacterChunker(chunk_size=size, chunk_overlap=overlap)


def test_separators_that_are_one_string_are_refused() -> None:
    with pytest.raises(InvalidInput, match="list"):
        RecursiveCharacterChunker(separators="\n\n")


@unhurried
@given(texts, st.integers(1, 40), st.data(), st.sampled_from(LIST_OF_SEPARATORS))
@example("\n\n  a b", 4, None, [" "])
def test_promises_hold_for_any_text(
    text: str, size: int, data: st.DataObject | None, separators: list[str]
) -> None:
    overlap = data.draw(st.integers(0, size - 1)) if data else 2
    chunker = RecursiveCharacterChunker(size, overlap, separators)
    spans = check_positions(chunker, text)
    check_promises(text, spans, size, overlap)
    assert chunker.chunk(text) == [text[span.start : span.end] for span in spans]


@unhurried
@given(texts, st.integers(3, 60), st.data())
def test_promises_hold_for_weighted_text(text: str, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    chunker = RecursiveCharacterChunker(size, overlap, weight=weigh_by_script)
    check_promises(text, check_positions(chunker, text), size, overlap, weigh_by_script)


@unhurried
@given(st.lists(st.sampled_from(PIECES), min_size=40, max_size=400).map("".join))
def test_promises_hold_for_longer_texts(text: str) -> None:
    spans = check_positions(RecursiveCharacterChunker(100, 30), text)
    check_promises(text, spans, 100, 30)


def test_an_empty_text_has_no_chunks() -> None:
    assert RecursiveCharacterChunker(10, 0).chunk("") == []


@pytest.mark.parametrize("text", [" ", "   ", "\n\n \t\n" * 50])
@pytest.mark.parametrize("overlap", [0, 4])
def test_the_chunks_of_a_blank_text_cover_it_too(text: str, overlap: int) -> None:
    pieces = RecursiveCharacterChunker(10, overlap).chunk(text)
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= 10 for piece in pieces)


def test_a_text_that_fits_is_one_chunk() -> None:
    assert RecursiveCharacterChunker().chunk("\n short \n") == ["\n short \n"]


def test_better_separators_come_first() -> None:
    chunker = RecursiveCharacterChunker(40, 0)
    assert chunker.chunk("A first paragraph here.\n\nAnd a second. It goes on a bit")[0].endswith("here.\n\n")
    assert chunker.chunk("A first line that is here.\nAnd a second. It goes on")[0].endswith("here.\n")
    assert chunker.chunk("Here is a sentence. And a second goes on and on")[0].endswith("sentence. ")
    assert chunker.chunk("Here are just many words without a stop at all")[0].endswith("stop ")


def test_a_word_is_not_cut_if_it_fits_a_chunk() -> None:
    assert RecursiveCharacterChunker(10, 0).chunk("ab 12345678 c") == ["ab ", "12345678 c"]


def test_a_long_word_is_cut_even_when_anywhere_is_not_listed() -> None:
    chunks = RecursiveCharacterChunker(10, 0, ["\n\n", " "]).chunk("x" * 25 + " y")
    assert [len(chunk) for chunk in chunks] == [10, 10, 7]


def test_overlap_begins_at_a_word() -> None:
    chunks = RecursiveCharacterChunker(30, 12).chunk("alpha beta gamma delta epsilon zeta eta theta")
    assert chunks[0] == "alpha beta gamma delta "
    assert chunks[1].startswith("gamma delta epsilon")


def test_overlap_inside_a_long_word_is_exact() -> None:
    spans = RecursiveCharacterChunker(100, 20).spans("x" * 1000)
    assert all(after.start == before.end - 20 for before, after in pairwise(spans[:-1]))


def test_remaining_whitespace_stays_with_a_word() -> None:
    assert RecursiveCharacterChunker(10, 0).chunk("abcdefgh ij" + " " * 6) == ["abcdefgh ", "ij" + " " * 6]


def test_a_run_of_whitespace_longer_than_a_chunk_is_covered() -> None:
    text = "a" + " " * 50 + "b"
    assert "".join(RecursiveCharacterChunker(10, 0).chunk(text)) == text


def test_a_character_larger_than_a_chunk_is_its_own_chunk() -> None:
    chunker = RecursiveCharacterChunker(2, 0, weight=weigh_by_script)
    assert chunker.chunk("ab记忆c") == ["ab", "记", "忆", "c"]


def test_graphemes_stay_whole() -> None:
    assert RecursiveCharacterChunker(10, 0).chunk(" " * 9 + "e\u0301\u0302") == [" " * 9, "e\u0301\u0302"]
    family = "👩‍👩‍👧"
    assert RecursiveCharacterChunker(12, 0).chunk(family * 3) == [family * 2, family]
    assert RecursiveCharacterChunker(5, 0).chunk("🇩🇪" * 3) == ["🇩🇪" * 2, "🇩🇪"]


@pytest.mark.parametrize(
    "text",
    ["x" * 100_000, "a" + "\u0301" * 100_000, "🇩" * 100_000, "\n" * 100_000 + "x", "ab " * 33_000],
    ids=["word", "marks", "flags", "newlines", "words"],
)
def test_huge_texts_are_cut(text: str) -> None:
    spans = RecursiveCharacterChunker().spans(text)
    assert 100 <= len(spans) <= 300
    assert all(span.end - span.start <= 1000 for span in spans)
    assert (spans[0].start, spans[-1].end) == (0, len(text))


def test_chunk_id_generation() -> None:
    # The first hex digits of the SHA-256 of "hello world".
    assert generate_chunk_id("hello world") == "chunk_b94d27b9934d"
    assert generate_pa_chunk_id("hello world") == "pa_chunk_b94d27b9934d"
    assert re.fullmatch(r"chunk_[0-9a-f]{12}", generate_chunk_id(""))


def test_deterministic_chunk_ids() -> None:
    assert generate_chunk_id("hello world") == generate_chunk_id("hello world")
    assert generate_pa_chunk_id("hello world") == generate_pa_chunk_id("hello world")


def test_different_content_produces_different_ids() -> None:
    assert generate_chunk_id("hello") != generate_chunk_id("world")
    assert generate_pa_chunk_id("hello") != generate_pa_chunk_id("world")


def test_any_text_has_an_id() -> None:
    assert generate_chunk_id("naïve 记忆") != generate_chunk_id("naive 记忆")
    assert generate_chunk_id("\ud800") != generate_chunk_id("\ud801")


def test_equal_texts_at_two_places_have_two_ids() -> None:
    places = [("a.md", 0), ("a.md", 11), ("b.md", 0), ("1:b.md", 0), ("b.md", 1)]
    assert len({chunk_id_at(document, start, "same") for document, start in places}) == len(places)
    assert chunk_id_at("a.md", 0, "same").startswith(generate_pa_chunk_id("same"))
    assert chunk_id_at("a.md", 0, "one") != chunk_id_at("a.md", 0, "two")


def test_a_document_that_is_cut_again_has_the_same_ids() -> None:
    document = Document("a.md", "same text. " * 3)
    once, again = (RecursiveCharacterChunker(11, 0).chunk_with_positions(document) for _ in range(2))
    assert [chunk.id for chunk in once] == [chunk.id for chunk in again]
    assert len({chunk.id for chunk in once}) == 3
