"""Split one text into overlapping spans that cover it. Pure: knows boundaries and weights, not languages."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from agentctx.errors import InvalidInput
from agentctx.text.chunking.base import Span
from agentctx.text.chunking.boundaries import (
    NOWHERE,
    Boundaries,
    first_grapheme_boundary,
    last_grapheme_boundary,
)
from agentctx.text.chunking.weights import TextMeasure

_NON_BLANK = re.compile(r"\S")


@dataclass(frozen=True, slots=True)
class PackLimits:
    """Maximum weights of a chunk, and of its overlap with the previous chunk.

    Raises `InvalidInput` unless `0 <= chunk_overlap < chunk_size`.
    """

    chunk_size: int
    chunk_overlap: int

    def __post_init__(self) -> None:
        if self.chunk_size < 1:
            raise InvalidInput(f"chunk_size must be at least 1, got {self.chunk_size}.")
        if self.chunk_overlap < 0:
            raise InvalidInput(f"chunk_overlap must not be negative, got {self.chunk_overlap}.")
        if self.chunk_overlap >= self.chunk_size:
            raise InvalidInput("chunk_overlap must be less than chunk_size.")


@dataclass(frozen=True, slots=True)
class Layout:
    """What the packer knows about a text's structure."""

    levels: Sequence[Boundaries]
    """Kinds of boundaries, the best first."""
    unbreakable: Sequence[Span] = ()
    """Parts to keep whole: ascending, disjoint, none heavier than a chunk."""
    starts: frozenset[int] = field(default=frozenset())
    """Borders after which nothing is repeated, because a new chunk begins there."""

    def unbreakable_around(self, position: int) -> Span | None:
        """Return the unbreakable span that a cut at `position` would break."""
        if not self.unbreakable:
            return None
        index = bisect_left(self.unbreakable, position, key=lambda span: span.start) - 1
        if index >= 0 and self.unbreakable[index].end > position:
            return self.unbreakable[index]
        return None


def pack(text: str, measure: TextMeasure, layout: Layout, limits: PackLimits) -> list[Span]:
    """Return the spans of the chunks of `text`, in order; none for an empty text.

    - Their union is the whole text; starts and ends strictly increase.
    - None is heavier than `chunk_size`, except for a single character that is.
    - Each one begins at most `chunk_overlap` before the end of the previous one.
    - A span is blank only next to a run of whitespace that takes about half of `chunk_size` or more.
    - A cut is at the last boundary, of the best level possible, that fits and leaves the chunk filled to
      the level's share; else at the last boundary of all, if the text after it fits a chunk; else at a
      grapheme boundary; else anywhere.
    """
    if not text:
        return []
    packer = _Packer(text, measure, layout, limits, len(text.rstrip()))
    spans = [Span(0, packer.cut(0, 0).end)]
    while spans[-1].end < len(text):
        spans.append(packer.following(spans[-1]))
    return spans


class _Quality(IntEnum):
    NOTHING_NEW = 0
    BROKEN = 1
    """Inside a grapheme."""
    BLANK = 2
    """Only whitespace is new before the cut, or left after it."""
    GRAPHEME = 3
    BOUNDARY = 4


@dataclass(frozen=True, slots=True)
class _ChunkEnd:
    end: int
    quality: _Quality


@dataclass(frozen=True, slots=True)
class _Window:
    """Where a cut may be: `low..high`, with `low` after the first new character that is not blank."""

    low: int
    high: int
    reach: int
    """How far the chunk could extend; `high` may be lower to keep something whole."""
    is_sound: bool = True
    """False if any cut leaves only whitespace before or after it."""


@dataclass(frozen=True, slots=True)
class _Packer:
    text: str
    measure: TextMeasure
    layout: Layout
    limits: PackLimits
    tail: int
    """Start of the trailing whitespace of the text."""

    def following(self, before: Span) -> Span:
        """Return the chunk after `before`, without overlap if that gives it a better end."""
        start = self._overlap_start(before)
        cut = self.cut(start, before.end)
        if start < before.end and cut.quality < _Quality.BOUNDARY:
            unrepeated = self.cut(before.end, before.end)
            if unrepeated.quality > cut.quality:
                return Span(before.end, unrepeated.end)
        return Span(start, cut.end)

    def cut(self, start: int, fresh: int) -> _ChunkEnd:
        """Return where the chunk that begins at `start` ends; `text[fresh:]` is new in it."""
        reach = self.measure.reach(start, self.limits.chunk_size)
        if reach >= len(self.text):
            return _ChunkEnd(len(self.text), _Quality.BOUNDARY)
        if reach <= fresh:
            return _ChunkEnd(fresh + 1, _Quality.BROKEN if start == fresh else _Quality.NOTHING_NEW)
        window = self._window(fresh, reach)
        end = self._boundary(start, fresh, window) if window.is_sound else NOWHERE
        return self._hard_cut(start, fresh, window) if end == NOWHERE else _ChunkEnd(end, _Quality.BOUNDARY)

    def _window(self, fresh: int, reach: int) -> _Window:
        word = _NON_BLANK.search(self.text, fresh, reach)
        if word is None:
            return _Window(fresh + 1, reach, reach, is_sound=False)
        low, high = word.end(), reach
        size = self.limits.chunk_size
        if reach >= self.tail and self.measure.between(self.tail - 1, len(self.text)) <= size:
            # Only whitespace would remain: leave one character to go with it.
            high = self.tail - 1
            if high < low:
                return _Window(low, reach, reach, is_sound=False)
        span = self.layout.unbreakable_around(high)
        if span is not None and span.start >= low:
            high = span.start
        return _Window(low, high, reach)

    def _boundary(self, start: int, fresh: int, window: _Window) -> int:
        for level in self.layout.levels:
            end = self._last(level, self._filled(start, fresh, level.share, window), window.high)
            if end != NOWHERE:
                return end
        ends = (self._last(level, window.low, window.high) for level in self.layout.levels)
        end = max(ends, default=NOWHERE)
        if end == NOWHERE:
            return NOWHERE
        reach = self.measure.reach(end, self.limits.chunk_size)
        fits = reach >= len(self.text) or any(
            self._first(level, window.high + 1, reach) != NOWHERE for level in self.layout.levels
        )
        return end if fits else NOWHERE

    def _filled(self, start: int, fresh: int, share: int, window: _Window) -> int:
        size, overlap = self.limits.chunk_size, self.limits.chunk_overlap
        filled = self.measure.reach(start, size // share)
        # A large overlap alone fills half a chunk; the steps forward must not become tiny.
        stepped = self.measure.reach(fresh, (size - overlap) // share)
        return min(max(window.low, filled, stepped), window.high)

    def _hard_cut(self, start: int, fresh: int, window: _Window) -> _ChunkEnd:
        end = last_grapheme_boundary(self.text, start, window.low, window.high)
        if end != NOWHERE:
            return _ChunkEnd(end, _Quality.GRAPHEME if window.is_sound else _Quality.BLANK)
        end = last_grapheme_boundary(self.text, start, fresh + 1, window.reach)
        if end != NOWHERE:
            return _ChunkEnd(end, _Quality.BLANK)
        return _ChunkEnd(window.high, _Quality.BROKEN)

    def _overlap_start(self, before: Span) -> int:
        end = before.end
        low = max(before.start + 1, self.measure.reach_back(end, self.limits.chunk_overlap))
        if low >= end or end in self.layout.starts:
            return end
        start = self._overlap_boundary(before.start, low, end)
        return end if self.text[start:end].isspace() else start

    def _overlap_boundary(self, anchor: int, low: int, end: int) -> int:
        """Return the best level's first boundary with much overlap, else any first one, else a grapheme's."""
        middle = self.measure.reach_back(end, self.limits.chunk_overlap // 2)
        for level in self.layout.levels:
            start = self._first(level, low, middle)
            if start != NOWHERE:
                return start
        starts = [self._first(level, low, end) for level in self.layout.levels]
        start = min((start for start in starts if start != NOWHERE), default=NOWHERE)
        if start != NOWHERE:
            return start
        start = first_grapheme_boundary(self.text, anchor, low, end)
        return end if start == NOWHERE or self.layout.unbreakable_around(start) else start

    def _first(self, level: Boundaries, low: int, high: int) -> int:
        while low <= high:
            position = level.first(low, high)
            span = None if position == NOWHERE else self.layout.unbreakable_around(position)
            if span is None:
                return position
            low = span.end
        return NOWHERE

    def _last(self, level: Boundaries, low: int, high: int) -> int:
        while low <= high:
            position = level.last(low, high)
            span = None if position == NOWHERE else self.layout.unbreakable_around(position)
            if span is None:
                return position
            high = span.start
        return NOWHERE
