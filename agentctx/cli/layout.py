"""Lays out text for terminals: measures, cuts and escapes it, and words sizes. No I/O."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence

ELLIPSIS = "…"
GAP = "  "

# Stored texts come from anywhere: escape sequences could control the terminal, bidi controls disguise text.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return the text with control characters shown as escapes; line breaks and tabs stay."""
    return _UNPRINTABLE.sub(_escape, text.replace("\r\n", "\n"))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def width(text: str) -> int:
    """Return the columns that the text takes: two for East Asian wide characters, none for combining ones."""
    return sum(_width_of(character) for character in text)


def _width_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def one_line(text: str, limit: int | None) -> str:
    """Return the text as one printable line, cut to `limit` columns (None: whole)."""
    return truncate(printable(" ".join(text.split())), limit)


def truncate(line: str, limit: int | None) -> str:
    """Shorten the line to `limit` columns, keeping the beginning and ending with an ellipsis."""
    if limit is None or width(line) <= limit:
        return line
    kept: list[str] = []
    left = limit - width(ELLIPSIS)
    for character in line:
        left -= _width_of(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + ELLIPSIS


def truncate_left(line: str, limit: int | None) -> str:
    """Shorten the line to `limit` columns, keeping the end: it says most about a path."""
    if limit is None or width(line) <= limit:
        return line
    return truncate(line[::-1], limit)[::-1]


def columns(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Return rows of equal length as aligned lines; the columns numbered in `right` are right-aligned."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return [
        GAP.join(_padded(cell, widths[at], at in right) for at, cell in enumerate(row)).rstrip()
        for row in rows
    ]


def _padded(cell: str, columns: int, right: bool) -> str:
    padding = " " * (columns - width(cell))
    return padding + cell if right else cell + padding


def file_size(size: int) -> str:
    """Return a size in bytes in readable form: `980 B`, `1.2 MB`."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
