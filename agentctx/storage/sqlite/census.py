"""Counting the invariant: each live chunk has words and a vector or a job; nothing lacks its chunk."""

from __future__ import annotations

from agentctx.sqlite.driver import Connection
from agentctx.storage.records import Census
from agentctx.storage.sqlite import spaces, word_index

_LIVE = "SELECT chunks.id FROM chunks JOIN entries ON entries.seq = chunks.entry AND entries.live = 1"


def take(conn: Connection) -> Census:
    """All counts from one snapshot. A table of vectors that is missing holds none."""
    chunks = _ids(conn, "SELECT id FROM chunks")
    live = _ids(conn, _LIVE)
    vectors = {index.space: set(index.chunk_ids(conn)) for index in spaces.prepared(conn)}
    words = word_index.indexed(conn)
    return Census(
        entries=_count(conn, "SELECT COUNT(*) FROM entries WHERE live = 1"),
        chunks=len(chunks),
        vectors=sum(len(stored) for stored in vectors.values()),
        unowed_chunks=_unowed(conn, live, vectors),
        orphan_vectors=sum(len(stored - live) for stored in vectors.values()),
        orphan_jobs=_count(
            conn,
            """SELECT COUNT(*) FROM jobs WHERE chunk NOT IN (SELECT id FROM chunks)
               OR space NOT IN (SELECT id FROM spaces WHERE enabled = 1)""",
        ),
        orphan_chunks=len(chunks - live),
        words_without_chunk=len(words - chunks),
        chunks_without_words=len(live - words),
    )


def _unowed(conn: Connection, live: set[int], vectors: dict[int, set[int]]) -> int:
    total = 0
    for space in spaces.enabled_ids(conn):
        jobs = _ids(conn, "SELECT chunk FROM jobs WHERE space = ?", space)
        total += len(live - jobs - vectors.get(space, set()))
    return total


def _ids(conn: Connection, sql: str, *parameters: int) -> set[int]:
    return {row[0] for row in conn.execute(sql, parameters)}


def _count(conn: Connection, sql: str) -> int:
    return int(conn.execute(sql).fetchone()[0])
