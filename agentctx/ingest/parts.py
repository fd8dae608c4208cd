"""Splits long texts into parts that fit into an entry, each with its own places. Pure."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from agentctx.wire import PlaceUnit

PART_CHARS = 100_000
PART_BYTES = 400_000
"""As JSON, where a control character takes six bytes; two parts with their places fit into one request."""
PART_PLACES = 10_000


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of a file's text. `places` follow `wire.FileRecord`, with offsets relative to the piece."""

    content: str
    places: list[list[int]]


@dataclass(frozen=True, slots=True)
class PartLimits:
    """Limits on the size of a part. A part holds at least one character, even if that exceeds `bytes`."""

    characters: int = PART_CHARS
    bytes: int = PART_BYTES
    places: int = PART_PLACES


def split(
    text: str, unit: PlaceUnit, places: Sequence[Sequence[int]], limits: PartLimits = PartLimits()
) -> list[TextPart]:
    """Split the text after line breaks; a line longer than a part is split in the middle.

    The concatenated parts equal the text, except that whitespace-only pieces are dropped, because an entry
    cannot hold them.
    """
    places = places or [(0, 1)]
    offsets = [place[0] for place in places]
    parts = []
    start = 0
    while start < len(text):
        end = _end_of_part(text, offsets, start, limits)
        content = text[start:end]
        if content.strip():
            parts.append(TextPart(content, _places_of(text, unit, places, offsets, start, end)))
        start = end
    return parts


def _end_of_part(text: str, offsets: Sequence[int], start: int, limits: PartLimits) -> int:
    longest = min(len(text), start + limits.characters)
    after_last_place = bisect_right(offsets, start) + limits.places - 1
    if after_last_place < len(offsets):
        longest = min(longest, offsets[after_last_place])
    longest = _within_bytes(text, start, longest, limits.bytes)
    if longest == len(text):
        return longest
    after_break = text.rfind("\n", start, longest) + 1
    return after_break or longest


def _within_bytes(text: str, start: int, end: int, most: int) -> int:
    """Return the last position, up to `end`, at which the text from `start` fits in `most` bytes of JSON."""
    if _json_bytes(text[start:end]) <= most:
        return end
    fits, too_far = start + 1, end
    while too_far - fits > 1:
        middle = (fits + too_far) // 2
        if _json_bytes(text[start:middle]) <= most:
            fits = middle
        else:
            too_far = middle
    return fits


def _json_bytes(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _places_of(
    text: str,
    unit: PlaceUnit,
    places: Sequence[Sequence[int]],
    offsets: Sequence[int],
    start: int,
    end: int,
) -> list[list[int]]:
    at = max(0, bisect_right(offsets, start) - 1)
    offset, number = places[at]
    if unit == "line":
        number += text.count("\n", offset, start)
    inside = range(at + 1, bisect_right(offsets, end - 1))
    return [[0, number], *([offsets[each] - start, places[each][1]] for each in inside)]
