"""Counting the invariant: each live chunk has words and a vector or a job; nothing lacks its chunk."""

from __future__ import annotations

from agentctx.sqlite.driver import Connection
from agentctx.storage.records import Census
from agentctx.storage.sqlite import spaces
from agentctx.storage.sqlite.space_index import SpaceIndex


def take(conn: Connection) -> Census:
    """All counts from one snapshot."""
    chunks = _ids(conn, "SELECT id FROM chunks")
    vectors = {space: set(SpaceIndex(space).chunk_ids(conn)) for space in spaces.prepared_ids(conn)}
    words = _ids(conn, "SELECT id FROM chunk_fts_docsize")
    return Census(
        entries=_count(conn, "SELECT COUNT(*) FROM entries WHERE live = 1"),
        chunks=len(chunks),
        vectors=sum(len(stored) for stored in vectors.values()),
        unowed_chunks=_unowed(conn, chunks, vectors),
        orphan_vectors=sum(len(stored - chunks) for stored in vectors.values()),
        orphan_jobs=_count(
            conn,
            """SELECT COUNT(*) FROM jobs WHERE chunk NOT IN (SELECT id FROM chunks)
               OR space NOT IN (SELECT id FROM spaces WHERE enabled = 1)""",
        ),
        orphan_chunks=_count(
            conn, "SELECT COUNT(*) FROM chunks WHERE entry NOT IN (SELECT seq FROM entries WHERE live = 1)"
        ),
        words_without_chunk=len(words - chunks),
        chunks_without_words=len(chunks - words),
    )


def _unowed(conn: Connection, chunks: set[int], vectors: dict[int, set[int]]) -> int:
    total = 0
    for space in spaces.enabled_ids(conn):
        jobs = {row[0] for row in conn.execute("SELECT chunk FROM jobs WHERE space = ?", (space,))}
        total += len(chunks - jobs - vectors.get(space, set()))
    return total


def _ids(conn: Connection, sql: str) -> set[int]:
    return {row[0] for row in conn.execute(sql)}


def _count(conn: Connection, sql: str) -> int:
    return int(conn.execute(sql).fetchone()[0])
