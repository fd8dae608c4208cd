"""Locates a passage in the file its text comes from. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from agentctx.wire import Location


def locate(attributes: Mapping[str, Any], content: str, start: int, end: int) -> Location | None:
    """Return the location of `content[start:end]` in the file of `attributes["file"]`; None without a file.

    See `wire.FileRecord` for the format.
    """
    file = attributes.get("file")
    if not file or not file["places"]:
        return None
    unit, places = file["unit"], file["places"]
    return Location(
        path=str(attributes.get("source", "")),
        unit=unit,
        first=_number(places, content, start, counts_lines=unit == "line"),
        last=_number(places, content, max(start, end - 1), counts_lines=unit == "line"),
    )


def _number(places: Sequence[Sequence[int]], content: str, at: int, *, counts_lines: bool) -> int:
    index = max(0, bisect_right(places, at, key=lambda place: place[0]) - 1)
    offset, number = places[index]
    return number + (content.count("\n", offset, at) if counts_lines else 0)
