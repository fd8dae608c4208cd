"""Where a text may be cut: after separators, at given positions, and never inside a grapheme."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

import regex

NOWHERE = -1

_GRAPHEME = regex.compile(
    # Flags first: for each one, \X would scan back over the whole run of regional indicators.
    r"[\U0001F1E6-\U0001F1FF]{2}[\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}]*+|\X"
)


class Boundaries(Protocol):
    """One kind of boundary in one text. A boundary is a position: the cut is before `text[position]`."""

    @property
    def share(self) -> int:
        """A chunk that ends at such a boundary fills at least `1 / share` of its size, if possible."""

    def first(self, low: int, high: int) -> int:
        """Return the lowest boundary in `low..high`, both inclusive, or `NOWHERE`."""

    def last(self, low: int, high: int) -> int:
        """Return the highest boundary in `low..high`, both inclusive, or `NOWHERE`."""


@dataclass(frozen=True, slots=True)
class PositionBoundaries:
    """Borders at known positions, in ascending order."""

    positions: Sequence[int]
    share: int = 2

    def first(self, low: int, high: int) -> int:
        index = bisect_left(self.positions, low)
        if index < len(self.positions) and self.positions[index] <= high:
            return self.positions[index]
        return NOWHERE

    def last(self, low: int, high: int) -> int:
        index = bisect_right(self.positions, high)
        if index and self.positions[index - 1] >= low:
            return self.positions[index - 1]
        return NOWHERE


@dataclass(frozen=True, slots=True)
class SeparatorBoundaries:
    """Borders directly after any of `separators`, which thus stay with the text before them."""

    text: str
    separators: Sequence[str]
    share: int = 2

    def first(self, low: int, high: int) -> int:
        positions = [self._first_after(separator, low, high) for separator in self.separators]
        return min((position for position in positions if position != NOWHERE), default=NOWHERE)

    def last(self, low: int, high: int) -> int:
        return max(self._last_after(separator, low, high) for separator in self.separators)

    def _first_after(self, separator: str, low: int, high: int) -> int:
        size = len(separator)
        while low <= high:
            index = self.text.find(separator, max(0, low - size), high)
            if index < 0:
                return NOWHERE
            if _follows_whole(self.text, index + size):
                return index + size
            low = index + size + 1
        return NOWHERE

    def _last_after(self, separator: str, low: int, high: int) -> int:
        size = len(separator)
        while low <= high:
            index = self.text.rfind(separator, max(0, low - size), high)
            if index < 0:
                return NOWHERE
            if _follows_whole(self.text, index + size):
                return index + size
            high = index + size - 1
        return NOWHERE


def separator_levels(text: str, groups: Sequence[Sequence[str]]) -> list[Boundaries]:
    """Return one kind of boundary for each group of separators that occurs in `text`, in order."""
    present = ([separator for separator in group if separator in text] for group in groups)
    return [SeparatorBoundaries(text, group) for group in present if group]


def first_grapheme_boundary(text: str, anchor: int, low: int, high: int) -> int:
    """Return the lowest grapheme boundary in `low..high`, or `NOWHERE`. `anchor < low` is a known one."""
    if _is_plainly_boundary(text, low):
        return low
    return next((end for end in _grapheme_ends(text, anchor, high) if end >= low), NOWHERE)


def last_grapheme_boundary(text: str, anchor: int, low: int, high: int) -> int:
    """Return the highest grapheme boundary in `low..high`, or `NOWHERE`. `anchor < low` is a known one."""
    if _is_plainly_boundary(text, high):
        return high
    end = max(_grapheme_ends(text, anchor, high), default=NOWHERE)
    return end if end >= low else NOWHERE


def _grapheme_ends(text: str, anchor: int, high: int) -> Iterator[int]:
    # One extra character decides whether `high` is a boundary; slicing the window out keeps \X from looking
    # back over the whole text.
    ends = (anchor + match.end() for match in _GRAPHEME.finditer(text[anchor : high + 1]))
    return takewhile(lambda end: end <= high, ends)


def _follows_whole(text: str, position: int) -> bool:
    """Return whether no grapheme extends beyond the separator before `position`."""
    if _is_plainly_boundary(text, position):
        return True
    pair = text[position - 1 : position + 1]
    end: int = _GRAPHEME.match(pair).end()
    return end == 1


def _is_plainly_boundary(text: str, position: int) -> bool:
    """Return whether the two neighbours prove that this is a boundary; False proves nothing."""
    if position >= len(text):
        return True
    return _stands_alone(text[position - 1]) and _stands_alone(text[position])


def _stands_alone(character: str) -> bool:
    """Return whether it never joins another of its kind: Latin, Greek, Cyrillic, CJK, Hangul syllables."""
    if character in "\r\n":
        return False
    code = ord(character)
    return code < 0x300 or 0x370 <= code < 0x483 or 0x4E00 <= code < 0xA000 or 0xAC00 <= code < 0xD7A4
