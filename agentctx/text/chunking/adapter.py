"""Add positions to the chunks of a chunker that does not report them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from itertools import compress
from typing import TypeAlias

from agentctx.text.chunking.base import Chunker, Document, PositionAwareChunk, Span
from agentctx.text.chunking.span_chunker import chunk_at

logger = logging.getLogger(__name__)

Placement: TypeAlias = list[Span | None]
"""The position of each piece of a text; None for a piece that was not found."""

_NON_BLANK = re.compile(r"\S")
_WHOLE_SEARCHES = 16
"""How often all of a text may be searched in vain; then only what is near, so that the time stays linear."""
_NEAR = 64
"""How many times the length of a piece is near."""


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
    is used only if it finds more text, ignoring whitespace. In a long text of which many pieces are not
    found, the later ones are only searched near where they are due.
    """
    sequential = _placed(content, pieces, _after)
    if None not in sequential:
        return sequential
    overlapping = _placed(content, pieces, _beside)
    lengths = [len("".join(piece.split())) for piece in pieces]
    return max(sequential, overlapping, key=lambda found: sum(compress(lengths, found)))


def _placed(content: str, pieces: Sequence[str], find: Callable[[str, str, Span, int], int]) -> Placement:
    placement: Placement = []
    before, left = Span(0, 0), _WHOLE_SEARCHES * len(content)
    for piece in pieces:
        is_whole = left > 0
        limit = len(content) if is_whole else _near(piece, before.end)
        start = find(content, piece, before, limit) if piece else -1
        span = Span(start, start + len(piece)) if start >= 0 else None
        placement.append(span)
        if span:
            before = span
        elif is_whole:
            left -= (len(content) - before.end) if piece else 0
        else:
            before = Span(before.end, min(before.end + len(piece), len(content)))
    return placement


def _near(piece: str, start: int) -> int:
    return start + _NEAR * (len(piece) + 1)


def _after(content: str, piece: str, before: Span, limit: int) -> int:
    return content.find(piece, before.end, limit)


def _beside(content: str, piece: str, before: Span, limit: int) -> int:
    """Find the piece directly after `before`, with at most whitespace between; else at the first position
    where it starts and ends later than `before`. A blank piece is only searched directly after it.
    """
    if piece.isspace():
        limit = min(limit, _near(piece, before.end))
    gap = _NON_BLANK.search(content, before.end, limit)
    gap_end = gap.start() if gap else min(limit, len(content))
    adjacent = content.find(piece, before.end, gap_end + len(piece))
    if adjacent >= 0 or piece.isspace():
        return adjacent
    is_first = before.end == 0
    return content.find(piece, 0 if is_first else max(before.start + 1, before.end - len(piece) + 1), limit)
