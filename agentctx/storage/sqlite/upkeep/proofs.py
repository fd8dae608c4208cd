"""Proves that stored data is consistent: by a census, quick counts, and chunks that must find themselves.

No part of the invariant concerns two chunks, so the census counts slices of ids, each in its own snapshot: a
long snapshot would keep everything written in the meantime in the WAL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from agentctx.storage.file.driver import FIRST_ID, LAST_ID, Connection
from agentctx.storage.file.vec0 import for_lookups
from agentctx.storage.proofs import Canary, CountVectors, FindCanaries, plain_words
from agentctx.storage.records import Census
from agentctx.storage.sqlite import sql
from agentctx.storage.sqlite.search import search, word_index
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.vectors import Vectors

IDS_PER_SLICE: Final = 20_000

_CHUNKS: Final = "SELECT id FROM chunks WHERE id BETWEEN ? AND ?"
_LIVE: Final = """SELECT chunks.id FROM chunks JOIN entries ON entries.seq = chunks.entry AND entries.live = 1
WHERE chunks.id BETWEEN ? AND ?"""
_JOBS: Final = "SELECT chunk FROM jobs WHERE chunk BETWEEN ? AND ? AND space = ?"
_ORPHAN_JOBS: Final = """SELECT COUNT(*) FROM jobs WHERE chunk BETWEEN ? AND ? AND (
  chunk NOT IN (SELECT id FROM chunks) OR space NOT IN (SELECT id FROM spaces WHERE enabled = 1))"""
_TABLE: Final = re.compile(r"vec_(\d+)_rowids")
_MAX_WORDS: Final = 200

_STORED: Final = """
SELECT vectors.id, vectors.embedding
FROM json_each(?) AS wanted CROSS JOIN {table} AS vectors ON vectors.id = wanted.value
"""
# FTS5 stems each word, in a separate table. A word that it does not know at all is the rarest.
_RAREST: Final = """
SELECT tokens.doc FROM temp.canary_tokens tokens
LEFT JOIN temp.canary_known known ON known.term = tokens.term
GROUP BY tokens.doc HAVING COALESCE(MAX(known.doc), 0) <= ?
ORDER BY COALESCE(MAX(known.doc), 0), tokens.doc LIMIT 1
"""


class Slice(NamedTuple):
    """The counts of a slice, and the first id of the next one; None after the last one."""

    census: Census
    following: int | None


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
    entries = 0
    if first == FIRST_ID:
        (entries,) = conn.execute("SELECT COUNT(*) FROM entries WHERE live = 1").fetchone()
    return Census(
        entries=entries,
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


def _ids(conn: Connection, sql: str, *parameters: int) -> set[int]:
    return {row[0] for row in conn.execute(sql, parameters)}


def _count_vectors(conn: Connection, wanted: CountVectors) -> dict[int, int]:
    indexes = spaces.prepared(conn) if wanted.of_prepared else map(SpaceIndex, _tables(conn))
    return {index.space: index.count(conn) for index in indexes}


def _tables(conn: Connection) -> set[int]:
    """Return the ids of spaces with a table of vectors, even an incomplete one."""
    names = (row[0] for row in conn.execute("SELECT name FROM sqlite_schema WHERE type = 'table'"))
    return {int(match[1]) for name in names if (match := _TABLE.fullmatch(name))}


def _canaries(conn: Connection, wanted: FindCanaries) -> list[Canary]:
    drawn = search.sample(conn, wanted.limit)
    ids = [each.chunk for each in drawn]
    vectors = {index.space: _vectors(conn, index, ids) for index in spaces.prepared(conn)}
    _make_scratch(conn)
    return [
        Canary(
            chunk=each.chunk,
            entry=each.entry,
            namespace=each.namespace,
            word=_rare_word(conn, each.text, wanted.max_chunks),
            vectors={space: held[each.chunk] for space, held in vectors.items() if each.chunk in held},
        )
        for each in drawn
    ]


def _vectors(conn: Connection, index: SpaceIndex, chunks: Sequence[int]) -> dict[int, Vectors]:
    sql = _STORED.format(table=for_lookups(conn, index.table))
    rows = conn.execute(sql, (json.dumps(list(chunks)),))
    return {chunk: np.frombuffer(vector, dtype=np.float32) for chunk, vector in rows}


def _make_scratch(conn: Connection) -> None:
    """Create temporary tables, which disappear at the end of the read transaction."""
    conn.execute("CREATE VIRTUAL TABLE temp.canary USING fts5(word, tokenize='porter unicode61')")
    conn.execute("CREATE VIRTUAL TABLE temp.canary_tokens USING fts5vocab(temp, canary, instance)")
    conn.execute("CREATE VIRTUAL TABLE temp.canary_known USING fts5vocab(main, chunk_fts, row)")


def _rare_word(conn: Connection, text: str, max_chunks: int) -> str:
    words = plain_words(text, _MAX_WORDS)
    conn.execute("DELETE FROM temp.canary")
    conn.executemany("INSERT INTO temp.canary (rowid, word) VALUES (?, ?)", enumerate(words))
    row = conn.execute(_RAREST, (max_chunks,)).fetchone()
    return "" if row is None else words[row[0]]


PROOF_STATEMENTS: Final[sql.Functions] = {CountVectors: _count_vectors, FindCanaries: _canaries}
