"""The suite of chunkers: what each promises, and texts that try to break it."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate, pairwise
from operator import attrgetter

import regex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentctx.text.chunking.base import Document, PositionAwareChunker, Span

PIECES = [
    *["\n\n", "\n", "\r\n", ". ", " ", "   ", "\t", "a", "word", "longerword", "x" * 17],
    *["e\u0301", "a\u0301\u0302\u0303\u0304", "\u0301", " \u0301", "\u200d", "\u200b"],
    *["👩‍👩‍👧", "👍🏽", "🇩🇪", "🇩", "\u0915\u094d\u0937\u093f", "\u0600", "각", "\u1100"],
    *["记忆", "。", "Привет", "ไทย", "\x00", "\u3000", "\u2028"],
    *[
        "# H\n",
        "## H two\n",
        "Title\n===\n",
        "```py\n",
        "```\n",
        "- item\n",
        "| a | b |\n",
        "---\n",
        "k: v\n",
    ],
]

unhurried = settings(deadline=None)
"""A busy machine must not fail a test."""
_inherited = settings(unhurried, suppress_health_check=list(HealthCheck))
"""A chunker has no state, so it may come from a fixture, and the test from a base class."""

texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=60).map("".join),
    st.text(max_size=80),
    st.text(alphabet=" \n\ta\u0301", max_size=60),
)


def weigh_all_one(_: str) -> int:
    return 1


def weigh_by_script(character: str) -> int:
    return 1 if ord(character) < 0x300 else 3


def check_positions(chunker: PositionAwareChunker, text: str) -> list[Span]:
    """Check that every chunk is `content[start:end]` of its document; return the positions."""
    chunks = chunker.chunk_with_positions(Document("doc", text, {"lang": "xx"}))
    for chunk in chunks:
        assert 0 <= chunk.start < chunk.end
        assert text[chunk.start : chunk.end] == chunk.content
        assert (chunk.doc_id, chunk.metadata) == ("doc", {"lang": "xx"})
    return [Span(chunk.start, chunk.end) for chunk in chunks]


def check_promises(
    text: str, spans: list[Span], size: int, overlap: int, weight: Callable[[str], int] = weigh_all_one
) -> None:
    if not text:
        assert spans == []
        return
    sums = [0, *accumulate(weight(character) for character in text)]
    check_cover(text, spans)
    for span in spans:
        assert sums[span.end] - sums[span.start] <= size or span.end == span.start + 1
    for before, after in pairwise(spans):
        assert before.start < after.start
        assert before.end < after.end
        assert sums[before.end] - sums[after.start] <= overlap
    check_graphemes(text, spans, size, sums)
    if text.strip():
        check_no_blank(text, spans, size, sums)


def check_cover(text: str, spans: list[Span]) -> None:
    assert spans, "no chunks"
    assert (spans[0].start, spans[-1].end) == (0, len(text))
    assert all(after.start <= before.end for before, after in pairwise(spans))


def check_graphemes(text: str, spans: list[Span], size: int, sums: list[int]) -> None:
    """No grapheme that fits a chunk is cut, unless one that does not fit shifted the count."""
    boundaries = [0, *(match.end() for match in regex.finditer(r"\X", text))]
    if any(sums[end] - sums[start] > size for start, end in pairwise(boundaries)):
        return
    assert {position for span in spans for position in (span.start, span.end)} <= set(boundaries)


def check_no_blank(text: str, spans: list[Span], size: int, sums: list[int]) -> None:
    """No chunk is blank where the whitespace around a grapheme fits a chunk with it."""
    runs = (sums[run.end()] - sums[run.start()] for run in re.finditer(r"\s+", text))
    graphemes = (sums[match.end()] - sums[match.start()] for match in regex.finditer(r"\X", text))
    if 2 * max(runs, default=0) + max(graphemes) <= size:
        assert not any(text[span.start : span.end].isspace() for span in spans)


class ChunkerConformance:
    """Expects a fixture `chunker`: a `PositionAwareChunker`.

    Wrap a chunker without positions in a `ChunkerPositionAdapter`. Set `size` and `overlap`, in characters,
    for one that limits its chunks: it must cut no grapheme and make no blank chunk where it can avoid that.
    """

    size: int | None = None
    overlap = 0

    @_inherited
    @given(text=texts)
    def test_the_chunks_of_any_text_cover_it_in_order(self, chunker: PositionAwareChunker, text: str) -> None:
        spans = check_positions(chunker, text)
        if self.size is not None:
            check_promises(text, spans, self.size, self.overlap)
        elif text:
            check_cover(text, spans)
            assert spans == sorted(spans, key=attrgetter("start"))
        else:
            assert spans == []

    @_inherited
    @given(text=texts)
    def test_equal_texts_have_equal_chunks(self, chunker: PositionAwareChunker, text: str) -> None:
        document = Document("doc", text)
        assert chunker.chunk_with_positions(document) == chunker.chunk_with_positions(document)

    def test_it_has_a_name(self, chunker: PositionAwareChunker) -> None:
        assert chunker.name
