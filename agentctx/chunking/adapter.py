"""Gives positions to the chunks of a chunker that knows none."""

from __future__ import annotations

import logging
import re

from agentctx.chunking.base import Chunker, Document, PositionAwareChunk, Span
from agentctx.chunking.span_chunker import chunk_at

logger = logging.getLogger(__name__)

_NON_BLANK = re.compile(r"\S")


class ChunkerPositionAdapter:
    """A `PositionAwareChunker` around a `Chunker`.

    Each chunk is looked for after the one before it; see `locate`. A chunk whose text is not in the
    document is left out, counted in `skipped_chunks` and logged as a warning without its text. Empty
    and blank chunks are left out without a word: there is nothing in them to find.

    `skipped_chunks` counts over the adapter's whole life, all documents together.
    """

    def __init__(self, chunker: Chunker) -> None:
        self._chunker = chunker
        self.skipped_chunks = 0

    @property
    def name(self) -> str:
        return f"PositionAdapter({self._chunker.name})"

    def chunk_with_positions(self, document: Document) -> list[PositionAwareChunk]:
        located: list[PositionAwareChunk] = []
        before: Span | None = None
        for ordinal, piece in enumerate(self._chunker.chunk(document.content)):
            if not piece or piece.isspace():
                continue
            found = locate(document.content, piece, before)
            if found is None:
                self._skip(document, ordinal)
                continue
            before = found
            located.append(chunk_at(document, found))
        return located

    def _skip(self, document: Document, ordinal: int) -> None:
        self.skipped_chunks += 1
        logger.warning(
            "%s: chunk %d of document %r is not in its text and was skipped",
            self.name,
            ordinal,
            document.id,
        )


def locate(content: str, piece: str, before: Span | None) -> Span | None:
    """Where `piece` is in `content`, given where the chunk `before` it is; None if nowhere.

    Directly after `before`, with at most whitespace between; else the first place that starts later
    and ends later than `before`, which may overlap it. Never wholly inside `before`.
    """
    if before is None:
        return _span(content.find(piece), piece)
    gap = _NON_BLANK.search(content, before.end)
    gap_end = gap.start() if gap else len(content)
    adjacent = content.find(piece, before.end, gap_end + len(piece))
    if adjacent >= 0:
        return _span(adjacent, piece)
    return _span(content.find(piece, max(before.start + 1, before.end - len(piece) + 1)), piece)


def _span(start: int, piece: str) -> Span | None:
    return Span(start, start + len(piece)) if start >= 0 else None
