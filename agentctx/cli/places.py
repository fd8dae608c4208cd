"""Describes for people where in a file a text is. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentctx.cli.layout import file_size
from agentctx.wire import Location

_SHOWN_DIGITS = 12


def place(location: Location) -> str:
    """Return `notes.md:12-20`, as compilers write it, or `report.pdf page 3` for a file without lines."""
    first, last = location.first, location.last
    if location.unit == "line":
        return f"{location.path}:{first}" if first == last else f"{location.path}:{first}-{last}"
    numbers = f"{location.unit} {first}" if first == last else f"{location.unit}s {first}-{last}"
    return f"{location.path} {numbers}"


def file_record(record: Mapping[str, Any]) -> str:
    """Return the `file` attribute of an entry on one line, without its long list of places."""
    digest = str(record.get("digest", ""))
    parts = record.get("parts", 1)
    parts = [
        f"part {record.get('part', 1)} of {parts}" if parts != 1 else "",
        file_size(record.get("size", 0)),
        f"sha256 {digest[:_SHOWN_DIGITS]}" if digest else "",
    ]
    return ", ".join(each for each in parts if each)
