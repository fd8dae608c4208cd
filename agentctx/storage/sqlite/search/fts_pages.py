"""The parts of FTS5's own table format that are needed to find deleted words there.

An index consists of segments. A segment is a series of numbered pages with sorted terms, and has a key for
each page on which a term begins: the key sorts after the terms of earlier pages, and not after the first term
of its own page. `fts5_index.c` in SQLite's sources describes the format.
"""

from __future__ import annotations

from typing import Final

STRUCTURE: Final = 10
"""The row of `TABLE_data` that lists the segments."""
PAGE_BITS: Final = 37
"""Low bits of a row number in `TABLE_data` that hold the page; the bits above are the segment."""
_COOKIE_BYTES: Final = 4
_MAX_BYTES: Final = 9


def renewed(key: bytes, page: bytes | None) -> bytes | None:
    """Return the key that a page should have: `key` if its first term begins with it, else that term.

    None if the page has no terms or is gone, and so needs no key. The key of a damaged page stays, for the
    doctor.
    """
    if not key:
        return key  # the first page of a segment
    try:
        term = None if page is None else _first_term(page)
    except IndexError:
        return key
    return key if term is not None and (term.startswith(key) or term < key) else term


def _first_term(page: bytes) -> bytes | None:
    """Return the first term of a page, which the directory behind the content locates.

    Raises:
        IndexError: the page is damaged.
    """
    directory = page[2] << 8 | page[3]
    if directory == len(page):
        return None
    place, _ = _varint(page, directory)
    length, start = _varint(page, place)
    if start + length > directory:
        raise IndexError("a term exceeds its page")
    return page[start : start + length]


def drained_segments(structure: bytes) -> list[int]:
    """Return the segments whose terms have all been merged into another one, but whose pages still exist.

    FTS5 removes the pages when the merge ends, which may take many more writes. Until then it does not read
    them, so a deleted word is removed only from the other segment. Empty if the structure is damaged.
    """
    try:
        return [segment for segment, last_page in _segments(structure) if last_page == 0]
    except IndexError:
        return []


def _segments(structure: bytes) -> list[tuple[int, int]]:
    """Return segments and their last pages.

    Raises:
        IndexError: the structure is damaged.
    """
    levels, at = _varint(structure, _COOKIE_BYTES)
    for _ in ("segments", "pages ever written"):
        _, at = _varint(structure, at)
    found = []
    for _ in range(levels):
        _, at = _varint(structure, at)  # how many segments of the level are being merged
        count, at = _varint(structure, at)
        for _ in range(count):
            segment, at = _varint(structure, at)
            _, at = _varint(structure, at)  # the first page
            last_page, at = _varint(structure, at)
            found.append((segment, last_page))
    if at != len(structure):
        raise IndexError("the structure has another format")
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode a variable-length integer, seven bits per byte; return it with its end."""
    value = 0
    for place in range(at, at + _MAX_BYTES):
        value = value << 7 | data[place] & 0x7F
        if data[place] < 0x80:
            return value, place + 1
    raise IndexError("a number does not end")
