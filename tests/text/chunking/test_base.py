from agentctx.text.chunking import (
    ChunkerPositionAdapter,
    Document,
    MarkdownChunker,
    RecursiveCharacterChunker,
    Span,
    is_position_aware_chunker,
    spans_of,
)
from agentctx.text.chunking.base import Chunker, PositionAwareChunker


class Halves:
    name = "Halves"

    def chunk(self, text: str) -> list[str]:
        return [text[: len(text) // 2], text[len(text) // 2 :]]


def test_chunker_interface() -> None:
    chunkers: list[Chunker] = [Halves(), RecursiveCharacterChunker(), MarkdownChunker()]
    for chunker in chunkers:
        assert chunker.name
        assert chunker.chunk("some text") != []


def test_chunker_returns_text_segments() -> None:
    text = "some long text, " * 40
    segments = RecursiveCharacterChunker(chunk_size=50, chunk_overlap=0).chunk(text)
    assert all(segments)
    assert "".join(segments) == text


def test_position_aware_chunker_interface() -> None:
    chunkers: list[PositionAwareChunker] = [
        RecursiveCharacterChunker(),
        MarkdownChunker(),
        ChunkerPositionAdapter(Halves()),
    ]
    for chunker in chunkers:
        assert chunker.name
        assert isinstance(chunker, PositionAwareChunker)
        assert chunker.chunk_with_positions(Document("d", "some text"))


def test_position_aware_chunks_have_valid_positions() -> None:
    document = Document("d", "\n\n  One sentence. Another one.\n\nA paragraph. " * 30)
    chunks = RecursiveCharacterChunker(chunk_size=60, chunk_overlap=20).chunk_with_positions(document)
    assert len(chunks) > 1
    for chunk in chunks:
        assert chunk.start >= 0
        assert chunk.end > chunk.start
        assert document.content[chunk.start : chunk.end] == chunk.content
    assert spans_of(chunks) == [Span(chunk.start, chunk.end) for chunk in chunks]


def test_type_guard_for_chunker_detection() -> None:
    assert is_position_aware_chunker(ChunkerPositionAdapter(Halves()))
    assert not is_position_aware_chunker(object())


def test_detect_position_aware_chunker() -> None:
    assert is_position_aware_chunker(RecursiveCharacterChunker())


def test_detect_basic_chunker() -> None:
    assert not is_position_aware_chunker(Halves())
