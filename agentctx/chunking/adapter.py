"""Add positions to the chunks of a chunker that does not report them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from agentctx.chunking.base import Chunker, Document, PositionAwareChunk, Span
from agentctx.chunking.span_chunker import chunk_at

logger = logging.getLogger(__name__)

Placement: TypeAlias = list[Span | None]
"""The position of each piece of a text; None for a piece that was not found."""

_NON_BLANK = re.compile(r"\S")


class ChunkerPositionAdapter:
    """Makes a `PositionAwareChunker` of a `Chunker`.

    `locate` finds each chunk. A chunk that is empty or not found is skipped, counted in `skipped_chunks` and
    logged as a warning without its text.

    `skipped_chunks` counts over the adapter's lifetime, for all documents together.
    """

    def __init__(self, chunker: Chunker) -> None:
        self._chunker = chunker
        self.skipped_chunks = 0

    @property
    def name(self) -> str:
        return f"PositionAdapter({self._chunker.name})"

    def chunk_with_positions(self, document: Document) -> list[PositionAwareChunk]:
        located: list[PositionAwareChunk] = []
        for ordinal, span in enumerate(locate(document.content, self._chunker.chunk(document.content))):
            if span is None:
                self._skip(document, ordinal)
            else:
                located.append(chunk_at(document, span))
        return located

    def _skip(self, document: Document, ordinal: int) -> None:
        self.skipped_chunks += 1
        logger.warning(
            "%s: chunk %d of document %r is not in its text and was skipped",
            self.name,
            ordinal,
            document.id,
        )


def locate(content: str, pieces: Sequence[str]) -> Placement:
    """Return the position of each of `pieces`, in order, in `content`.

    Each piece is searched from the end of the one before. If any is not found, the pieces may overlap; then
    each may also begin inside the one before, as near to its end as `_beside` finds it. The second placement
    is used only if it finds more text, ignoring whitespace.
    """
    sequential = _placed(content, pieces, _after)
    if None not in sequential:
        return sequential
    overlapping = _placed(content, pieces, _beside)
    return max(sequential, overlapping, key=lambda placement: _characters_found(pieces, placement))


def _placed(content: str, pieces: Sequence[str], find: Callable[[str, str, Span], int]) -> Placement:
    placement: Placement = []
    before = Span(0, 0)
    for piece in pieces:
        start = find(content, piece, before) if piece else -1
        found = Span(start, start + len(piece)) if start >= 0 else None
        before = found or before
        placement.append(found)
    return placement


def _after(content: str, piece: str, before: Span) -> int:
    return content.find(piece, before.end)


def _beside(content: str, piece: str, before: Span) -> int:
    """Find the piece directly after `before`, with at most whitespace between; else at the first place that
    starts and ends later than `before`. A blank piece is only searched directly after it.
    """
    gap = _NON_BLANK.search(content, before.end)
    gap_end = gap.start() if gap else len(content)
    adjacent = content.find(piece, before.end, gap_end + len(piece))
    if adjacent >= 0 or piece.isspace():
        return adjacent
    is_first = before.end == 0
    return content.find(piece, 0 if is_first else max(before.start + 1, before.end - len(piece) + 1))


def _characters_found(pieces: Sequence[str], placement: Placement) -> int:
    return sum(len("".join(piece.split())) for piece, span in zip(pieces, placement, strict=True) if span)
