"""Proves that stored data is consistent: by counts, by space, and by chunks that must find themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from agentctx.embedding_providers.base import Vectors
from agentctx.sqlite.driver import Connection
from agentctx.sqlite.vec0 import quoted
from agentctx.storage.proofs import Canary, SpaceVectors
from agentctx.storage.records import SpaceState
from agentctx.storage.sqlite.connections import SqlitePart, reads, removes
from agentctx.storage.sqlite.search import search
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.stop_words import STOP_WORDS

LOOK_TIMEOUT_S: Final = 20.0

_TABLE: Final = re.compile(r"vec_(\d+)_rowids")
_NO_WORD: Final = "A-Za-z0-9_'\u0080-\U0010ffff"
# Compiled on first use: 4 ms that the daemon's start does not take.
_PLAIN_WORD: Final = rf"(?<![{_NO_WORD}])[A-Za-z]{{3,40}}(?![{_NO_WORD}])"
"""Words that stand alone, so that compounds, other scripts or marks do not affect whether they are found."""
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


def _violations(conn: Connection) -> int:
    chunks = int(conn.execute("SELECT COUNT(*) FROM chunks").fetchone()[0])
    vectors = {index.space: index.count(conn) for index in spaces.prepared(conn)}
    found = sum(max(0, count - chunks) for count in vectors.values())
    for space in spaces.enabled_ids(conn):
        (jobs,) = conn.execute("SELECT COUNT(*) FROM jobs WHERE space = ?", (space,)).fetchone()
        found += max(0, chunks - jobs - vectors.get(space, 0))
    return found


def _by_space(conn: Connection) -> list[SpaceVectors]:
    counts = {space: SpaceIndex(space).count(conn) for space in _tables(conn)}
    known = [
        SpaceVectors(space.id, space.state, space.enabled, space.fingerprint, counts.pop(space.id, 0))
        for space in spaces.all_spaces(conn)
    ]
    strangers = [
        SpaceVectors(space, None, enabled=False, fingerprint={}, vectors=count)
        for space, count in counts.items()
    ]
    return sorted([*known, *strangers], key=lambda each: each.space)


def _tables(conn: Connection) -> set[int]:
    """Return the ids of spaces with a table of vectors, even an incomplete one."""
    names = (row[0] for row in conn.execute("SELECT name FROM sqlite_schema WHERE type = 'table'"))
    return {int(match[1]) for name in names if (match := _TABLE.fullmatch(name))}


def _remove_leftover(conn: Connection) -> int:
    removed = 0
    for left in _by_space(conn):
        if left.vectors and left.state in {None, SpaceState.RETIRED}:
            SpaceIndex(left.space).drop(conn)
            removed += left.vectors
    return removed


def _canaries(conn: Connection, limit: int, *, max_chunks: int) -> list[Canary]:
    drawn = search.sample(conn, limit)
    ids = [each.chunk for each in drawn]
    vectors = {index.space: _vectors(conn, index, ids) for index in spaces.prepared(conn)}
    _make_scratch(conn)
    return [
        Canary(
            chunk=each.chunk,
            entry=each.entry,
            namespace=each.namespace,
            word=_rare_word(conn, each.text, max_chunks),
            vectors={space: held[each.chunk] for space, held in vectors.items() if each.chunk in held},
        )
        for each in drawn
    ]


def _vectors(conn: Connection, index: SpaceIndex, chunks: Sequence[int]) -> dict[int, Vectors]:
    rows = conn.execute(_STORED.format(table=quoted(index.table)), (json.dumps(list(chunks)),))
    return {chunk: np.frombuffer(vector, dtype=np.float32) for chunk, vector in rows}


def _make_scratch(conn: Connection) -> None:
    """Create temporary tables, which disappear at the end of the read transaction."""
    conn.execute("CREATE VIRTUAL TABLE temp.canary USING fts5(word, tokenize='porter unicode61')")
    conn.execute("CREATE VIRTUAL TABLE temp.canary_tokens USING fts5vocab(temp, canary, instance)")
    conn.execute("CREATE VIRTUAL TABLE temp.canary_known USING fts5vocab(main, chunk_fts, row)")


def _rare_word(conn: Connection, text: str, max_chunks: int) -> str:
    words = [
        word
        for word in dict.fromkeys(match[0].lower() for match in re.finditer(_PLAIN_WORD, text))
        if word not in STOP_WORDS
    ][:_MAX_WORDS]
    conn.execute("DELETE FROM temp.canary")
    conn.executemany("INSERT INTO temp.canary (rowid, word) VALUES (?, ?)", enumerate(words))
    row = conn.execute(_RAREST, (max_chunks,)).fetchone()
    return "" if row is None else words[row[0]]


class SqliteProofs(SqlitePart):
    """`ProofStorage` on the SQLite file."""

    count_violations = reads(_violations)
    vectors_by_space = reads(_by_space, timeout_s=LOOK_TIMEOUT_S)
    remove_leftover_vectors = removes(_remove_leftover)
    canaries = reads(_canaries, timeout_s=LOOK_TIMEOUT_S)
