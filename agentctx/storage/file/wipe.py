"""Wipes the remains of deleted rows from pages that are still in use.

`secure_delete` overwrites a row where it is deleted. But when SQLite moves rows to another page to make room,
it leaves the bytes of their old place between a page's cells and their directory, and if such a row is
deleted later, these bytes stay readable. SQLite ignores them, so they can be overwritten without it, while no
process has the database open.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentctx.errors import StorageFailed

_BTREE_FLAGS: Final = {2: 12, 5: 12, 10: 8, 13: 8}
"""The first byte of a b-tree page, and the length of its header."""
_LOCK_AT: Final = 0x40000000
_LOCK_BYTES: Final = 512
"""Where SQLite locks a database: a connection locks a part of this range as long as it is open."""
_MAX_PAGES: Final = 0x02000000
"""From this size on, a page number may begin like a b-tree page."""
_PAGES_A_READ: Final = 1_024
PAGES_PER_STEP: Final = 16_384
"""Pages per step: 64 MiB with pages of 4 KiB, which take about a tenth of a second."""
_HEADER: Final = struct.Struct(">BHHH")


@dataclass(frozen=True, slots=True)
class WipeResult:
    """The result of a step: how many leftovers were wiped, and the next page; None at the end."""

    leftovers: int
    next_page: int | None


def wipe_gaps(path: Path, *, first: int = 1, pages: int = PAGES_PER_STEP) -> WipeResult:
    """Overwrite with zeros the remains of rows in unused parts of `pages` pages, starting with page `first`.

    Blocks while it reads them. Other work may happen between steps: rows deleted before the first step leave
    no new copies. A crash in between loses nothing, because no byte that SQLite uses is written.

    Raises:
        StorageFailed: another process has the database open, or the disk fails.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _lock(descriptor)
            return _wipe(descriptor, first, pages)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StorageFailed(f"Deleted text could not be overwritten: {error.strerror}.") from error


def _lock(descriptor: int) -> None:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCK_BYTES, _LOCK_AT)
    except BlockingIOError as error:
        raise StorageFailed("Another program has the database open.") from error


def _wipe(descriptor: int, first: int, pages: int) -> WipeResult:
    head = os.pread(descriptor, 100, 0)
    page_bytes = int.from_bytes(head[16:18], "big")
    page_bytes = 65_536 if page_bytes == 1 else page_bytes
    usable = page_bytes - head[20]
    has_map = head[52:56] != bytes(4)
    if os.fstat(descriptor).st_size // page_bytes >= _MAX_PAGES:
        raise StorageFailed("The database is too large to overwrite deleted text in it.")
    wiped = 0
    number = first
    while number < first + pages:
        block = os.pread(descriptor, min(_PAGES_A_READ, pages) * page_bytes, (number - 1) * page_bytes)
        if not block:
            break
        for at in range(0, len(block) - page_bytes + 1, page_bytes):
            if not (has_map and _is_map(number, page_bytes, usable)):
                for start, end in _leftovers(block, at, usable, is_first=number == 1):
                    os.pwrite(descriptor, bytes(end - start), (number - 1) * page_bytes + start - at)
                    wiped += 1
            number += 1
    if wiped:
        os.fsync(descriptor)
    return WipeResult(wiped, number if block else None)


def _is_map(number: int, page_bytes: int, usable: int) -> bool:
    """Return whether a page is a pointer map of `auto_vacuum`, which may look like any other page."""
    if number < 2:
        return False
    every = usable // 5 + 1
    place = (number - 2) // every * every + 2
    if place == _LOCK_AT // page_bytes + 1:
        place += 1
    return place == number


def _leftovers(block: bytes, at: int, usable: int, *, is_first: bool) -> Iterator[tuple[int, int]]:
    """Yield the ranges of unused nonzero bytes in the page that begins at `at`."""
    header = at + (100 if is_first else 0)
    flag, freeblock, cells, content = _HEADER.unpack_from(block, header)
    length = _BTREE_FLAGS.get(flag)
    if length is None:
        return
    start, end = header + length + 2 * cells, at + (content or 65_536)
    if not header < start <= end <= at + usable:
        return  # damaged: doctor detects that
    if block.count(0, start, end) < end - start:
        yield start, end
    while freeblock and content <= freeblock <= usable - 4:
        following, size = struct.unpack_from(">HH", block, at + freeblock)
        first, last = at + freeblock + 4, at + freeblock + size
        if last > at + usable or (following and following <= freeblock):
            return
        if block.count(0, first, last) < last - first:
            yield first, last
        freeblock = following
