"""The specification's chunkers: a test for each requirement and scenario, named after it."""

from __future__ import annotations

import hashlib
import logging

import pytest

from agentctx.errors import InvalidInput
from agentctx.text.chunking import (
    Chunker,
    ChunkerPositionAdapter,
    Document,
    PositionAwareChunker,
    RecursiveCharacterChunker,
    generate_chunk_id,
    generate_pa_chunk_id,
    is_position_aware_chunker,
)

TEXT = "First paragraph, with a few words.\n\nSecond one. It has two sentences.\n" * 45
DOCUMENT = Document("doc.md", TEXT)


class PartsChunker:
    """A basic chunker that returns the given parts."""

    name = "MyChunker"

    def __init__(self, *parts: str) -> None:
        self._parts = list(parts)

    def chunk(self, text: str) -> list[str]:
        return self._parts


def test_chunker_interface() -> None:
    chunker: Chunker = PartsChunker("a", "b")
    assert (chunker.name, chunker.chunk("ab")) == ("MyChunker", ["a", "b"])


def test_chunker_interface__chunker_returns_text_segments() -> None:
    pieces = RecursiveCharacterChunker(chunk_size=100, chunk_overlap=0).chunk("some long text " * 40)
    assert all(pieces)
    assert "".join(pieces) == "some long text " * 40
    assert RecursiveCharacterChunker().chunk("   ") == ["   "]


def test_position_aware_chunker_interface() -> None:
    chunker: PositionAwareChunker = RecursiveCharacterChunker()
    assert isinstance(chunker.name, str)
    assert [chunk.doc_id for chunk in chunker.chunk_with_positions(Document("d", "text"))] == ["d"]


def test_position_aware_chunker_interface__position_aware_chunks_have_valid_positions() -> None:
    for chunk in RecursiveCharacterChunker().chunk_with_positions(DOCUMENT):
        assert chunk.start >= 0
        assert chunk.end > chunk.start
        assert TEXT[chunk.start : chunk.end] == chunk.content


def test_type_guard_for_chunker_detection() -> None:
    adapted = ChunkerPositionAdapter(PartsChunker("a"))
    assert is_position_aware_chunker(adapted) is True
    assert is_position_aware_chunker(object()) is False


def test_type_guard_for_chunker_detection__detect_position_aware_chunker() -> None:
    assert is_position_aware_chunker(RecursiveCharacterChunker()) is True


def test_type_guard_for_chunker_detection__detect_basic_chunker() -> None:
    assert is_position_aware_chunker(PartsChunker("a")) is False


def test_chunker_position_adapter() -> None:
    adapter: PositionAwareChunker = ChunkerPositionAdapter(PartsChunker("one", "two"))
    found = adapter.chunk_with_positions(Document("d", "one and two and one"))
    assert [(chunk.content, chunk.start) for chunk in found] == [("one", 0), ("two", 8)]


def test_chunker_position_adapter__adapter_locates_chunks_sequentially() -> None:
    adapter = ChunkerPositionAdapter(PartsChunker("AA", "BB", "CC"))
    found = adapter.chunk_with_positions(Document("d", "AABBCC"))
    assert [(chunk.start, chunk.end) for chunk in found] == [(0, 2), (2, 4), (4, 6)]
    lossy = ChunkerPositionAdapter(PartsChunker("aba", "ab"))
    found = lossy.chunk_with_positions(Document("d", "abab ab"))
    assert [(chunk.start, chunk.end) for chunk in found] == [(0, 3), (5, 7)]


def test_chunker_position_adapter__adapter_handles_non_locatable_chunks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    adapter = ChunkerPositionAdapter(PartsChunker("a b", "c", "\n\n"))
    with caplog.at_level(logging.WARNING):
        found = adapter.chunk_with_positions(Document("d", "a  b c"))
    assert [chunk.content for chunk in found] == ["c"]
    assert adapter.skipped_chunks == 2
    assert len(caplog.records) == 2


def test_chunker_position_adapter__adapter_name_includes_wrapped_chunker_name() -> None:
    assert ChunkerPositionAdapter(PartsChunker()).name == "PositionAdapter(MyChunker)"


def test_recursive_character_chunker() -> None:
    chunker = RecursiveCharacterChunker(chunk_size=20, chunk_overlap=5, separators=["|", ""])
    assert is_position_aware_chunker(chunker)
    assert all(len(piece) <= 20 for piece in chunker.chunk("one|two|three|four|five|six|seven"))
    defaults = RecursiveCharacterChunker()
    assert (defaults.limits.chunk_size, defaults.limits.chunk_overlap) == (1000, 200)


def test_recursive_character_chunker__chunk_text_with_default_settings() -> None:
    assert len(TEXT) > 3_000
    pieces = RecursiveCharacterChunker().chunk(TEXT)
    assert len(pieces) > 3
    assert all(len(piece) <= 1_000 for piece in pieces)
    assert all(piece.endswith(("\n", ". ", " ")) for piece in pieces)


def test_recursive_character_chunker__chunk_with_positions_tracks_offsets() -> None:
    for chunk in RecursiveCharacterChunker().chunk_with_positions(DOCUMENT):
        assert DOCUMENT.content[chunk.start : chunk.end] == chunk.content


@pytest.mark.parametrize("overlap", [100, 101])
def test_recursive_character_chunker__reject_invalid_overlap(overlap: int) -> None:
    with pytest.raises(InvalidInput, match="overlap"):
        RecursiveCharacterChunker(chunk_size=100, chunk_overlap=overlap)


def test_chunk_id_generation() -> None:
    digest = hashlib.sha256(b"hello world").hexdigest()[:12]
    assert generate_chunk_id("hello world") == f"chunk_{digest}"
    assert generate_pa_chunk_id("hello world") == f"pa_chunk_{digest}"


def test_chunk_id_generation__deterministic_chunk_ids() -> None:
    assert generate_chunk_id("hello world") == generate_chunk_id("hello world")


def test_chunk_id_generation__different_content_produces_different_ids() -> None:
    assert generate_chunk_id("hello") != generate_chunk_id("world")
