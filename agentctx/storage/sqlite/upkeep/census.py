"""Counts violations of the invariant: live chunks have words and a vector or a job; nothing is orphaned.

No part of the invariant concerns two chunks, so it is counted in slices of ids, each in its own snapshot:
a long snapshot would keep everything written in the meantime in the WAL.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from agentctx.sqlite.driver import FIRST_ID, LAST_ID, Connection
from agentctx.storage.records import Census
from agentctx.storage.sqlite.search import word_index
from agentctx.storage.sqlite.vectors import spaces

IDS_PER_SLICE: Final = 20_000

_CHUNKS: Final = "SELECT id FROM chunks WHERE id BETWEEN ? AND ?"
_LIVE: Final = """SELECT chunks.id FROM chunks JOIN entries ON entries.seq = chunks.entry AND entries.live = 1
WHERE chunks.id BETWEEN ? AND ?"""
_JOBS: Final = "SELECT chunk FROM jobs WHERE chunk BETWEEN ? AND ? AND space = ?"
_ORPHAN_JOBS: Final = """SELECT COUNT(*) FROM jobs WHERE chunk BETWEEN ? AND ? AND (
  chunk NOT IN (SELECT id FROM chunks) OR space NOT IN (SELECT id FROM spaces WHERE enabled = 1))"""


class Slice(NamedTuple):
    """The counts of a slice, and the first id of the next one; None after the last one."""

    census: Census
    following: int | None


def take(conn: Connection) -> Census:
    """Return all counts from the caller's snapshot."""
    census, following = take_slice(conn)
    while following is not None:
        more, following = take_slice(conn, following)
        census += more
    return census


def take_slice(conn: Connection, first: int = FIRST_ID) -> Slice:
    """Count `IDS_PER_SLICE` ids from `first` on; the last slice also includes everything after it.

    A missing table of vectors counts as empty.
    """
    (highest,) = conn.execute("SELECT COALESCE(MAX(id), 0) FROM chunks").fetchone()
    last = max(first, 0) + IDS_PER_SLICE - 1
    following = last + 1 if last < highest else None
    counted = _count(conn, first, LAST_ID if following is None else last)
    return Slice(counted, following)


def _count(conn: Connection, first: int, last: int) -> Census:
    chunks = _ids(conn, _CHUNKS, first, last)
    live = _ids(conn, _LIVE, first, last)
    vectors = {index.space: set(index.chunk_ids(conn, first, last)) for index in spaces.prepared(conn)}
    words = word_index.indexed(conn, first, last)
    pending = {space: _ids(conn, _JOBS, first, last, space) for space in spaces.enabled_ids(conn)}
    return Census(
        entries=_live_entries(conn) if first == FIRST_ID else 0,
        chunks=len(chunks),
        vectors=sum(len(stored) for stored in vectors.values()),
        chunks_without_job=sum(
            len(live - jobs - vectors.get(space, set())) for space, jobs in pending.items()
        ),
        orphan_vectors=sum(len(stored - live) for stored in vectors.values()),
        orphan_jobs=int(conn.execute(_ORPHAN_JOBS, (first, last)).fetchone()[0]),
        orphan_chunks=len(chunks - live),
        words_without_chunk=len(words - chunks),
        chunks_without_words=len(live - words),
    )


def _live_entries(conn: Connection) -> int:
    return int(conn.execute("SELECT COUNT(*) FROM entries WHERE live = 1").fetchone()[0])


def _ids(conn: Connection, sql: str, *parameters: int) -> set[int]:
    return {row[0] for row in conn.execute(sql, parameters)}
