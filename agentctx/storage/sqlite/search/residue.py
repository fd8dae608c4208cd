"""Removes deleted words from the places where FTS5 leaves them.

A secure deletion of FTS5 removes a term from its page, but leaves

- the key of the page, if it was made from the term, as long as the page has other terms;
- the pages of a segment that an unfinished merge has drained.

No command of FTS5 removes either in bounded time: `merge` and `optimize` rewrite whole segments, and leave a
single one unchanged; `rebuild` reads every text. So both are removed here. Each function is one step inside
the caller's transaction, and leaves a sound FTS5 index.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from agentctx.storage.file.copy import CopyPace
from agentctx.storage.file.driver import Connection, hardening
from agentctx.storage.sqlite.search import fts_pages, word_index

KEYS_PER_STEP: Final = 2_000
"""Their pages are 8 MiB, which takes some 20 ms to read."""
STALE_PER_STEP: Final = 100
PAGES_PER_STEP: Final = 250

_KEYS: Final = """
SELECT keys.segid, keys.term, pages.block FROM {table}_idx AS keys
LEFT JOIN {table}_data AS pages ON pages.id = (keys.segid << 37) + (keys.pgno >> 1)
WHERE typeof(keys.term) = 'blob' AND typeof(pages.block) IN ('blob', 'null')
"""
"""See `fts_pages.PAGE_BITS`; `pgno` has a flag in its lowest bit. Values of another type are damaged."""
_KEYS_AFTER: Final = f"{_KEYS} AND (keys.segid, keys.term) > (?, ?) ORDER BY keys.segid, keys.term LIMIT ?"
_KEY: Final = f"{_KEYS} AND (keys.segid, keys.term) = (?, ?)"
_REPLACE_KEY: Final = "UPDATE {table}_idx SET term = ? WHERE (segid, term) = (?, ?)"
_REMOVE_KEY: Final = "DELETE FROM {table}_idx WHERE (segid, term) = (?, ?)"
_REMOVE_KEYS: Final = "DELETE FROM {table}_idx WHERE segid = ?"
_STRUCTURE: Final = "SELECT block FROM {table}_data WHERE id = ? AND typeof(block) = 'blob'"
_HAS_PAGES: Final = "SELECT EXISTS (SELECT 1 FROM {table}_data WHERE id BETWEEN ? AND ?)"
_REMOVE_PAGES: Final = """DELETE FROM {table}_data
WHERE id IN (SELECT id FROM {table}_data WHERE id BETWEEN ? AND ? LIMIT ?)"""


class PageKey(NamedTuple):
    """The key of a page, with its segment."""

    segment: int
    term: bytes


FIRST: Final = PageKey(0, b"")
"""Sorts before every key."""


class KeyStep(NamedTuple):
    """Stale keys, and the key after which to continue; None at the end."""

    stale: tuple[PageKey, ...]
    following: PageKey | None


def find_stale_keys(conn: Connection, table: str, after: PageKey, limit: int = KEYS_PER_STEP) -> KeyStep:
    """Examine up to `limit` keys for stale ones; finds none while a part of the index is missing."""
    if word_index.missing_tables(conn, table):
        return KeyStep((), None)
    stale: list[PageKey] = []
    seen, last = 0, after
    for segment, term, page in conn.execute(_KEYS_AFTER.format(table=table), (*after, limit)):
        seen, last = seen + 1, PageKey(segment, term)
        if fts_pages.renewed(term, page) != term:
            stale.append(last)
            if len(stale) == STALE_PER_STEP:
                return KeyStep(tuple(stale), last)
    return KeyStep(tuple(stale), last if seen == limit else None)


def replace_keys(conn: Connection, table: str, keys: Iterable[PageKey]) -> None:
    """Replace the given keys that are still stale."""
    if word_index.missing_tables(conn, table):
        return
    with hardening.without_defensive(conn):
        for key in keys:
            for _, term, page in conn.execute(_KEY.format(table=table), key).fetchall():
                _write_key(conn, table, key, fts_pages.renewed(term, page))


def _write_key(conn: Connection, table: str, key: PageKey, term: bytes | None) -> None:
    if term is None:
        conn.execute(_REMOVE_KEY.format(table=table), key)
    elif term != key.term:
        conn.execute(_REPLACE_KEY.format(table=table), (term, *key))


def has_drained_pages(conn: Connection, table: str) -> bool:
    """Return whether `remove_drained_pages` has anything to do."""
    return any(
        conn.execute(_HAS_PAGES.format(table=table), _rows_of(segment)).fetchone()[0]
        for segment in _drained(conn, table)
    )


def remove_drained_pages(conn: Connection, table: str, limit: int = PAGES_PER_STEP) -> int:
    """Remove up to `limit` pages of drained segments; return how many."""
    with hardening.without_defensive(conn):
        for segment in _drained(conn, table):
            conn.execute(_REMOVE_KEYS.format(table=table), (segment,))
            pages = (*_rows_of(segment), limit)
            if removed := conn.execute(_REMOVE_PAGES.format(table=table), pages).rowcount:
                return removed
    return 0


def remove_all(conn: Connection, pace: CopyPace) -> None:
    """Remove all residue from a copy of a database. Raises `StorageClosed` if `pace` was stopped."""
    for table in word_index.TABLES:
        while remove_drained_pages(conn, table):
            pace.step()
        following: PageKey | None = FIRST
        while following is not None:
            stale, following = find_stale_keys(conn, table, following)
            replace_keys(conn, table, stale)
            pace.step()


def _drained(conn: Connection, table: str) -> list[int]:
    if word_index.missing_tables(conn, table):
        return []
    row = conn.execute(_STRUCTURE.format(table=table), (fts_pages.STRUCTURE,)).fetchone()
    return [] if row is None else fts_pages.drained_segments(row[0])


def _rows_of(segment: int) -> tuple[int, int]:
    first = segment << fts_pages.PAGE_BITS
    return first, first + (1 << fts_pages.PAGE_BITS) - 1
