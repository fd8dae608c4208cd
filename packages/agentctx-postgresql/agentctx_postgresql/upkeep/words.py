"""Compare the words of chunks with their texts, and rebuild them, in slices of entries."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from agentctx.storage.chunk_texts import ChunkTexts, Piece, stored_cues
from agentctx_postgresql import locks
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.search.terms import Words, words_of

ENTRIES_PER_SLICE: Final = 100

_CHUNKS: Final = """SELECT e.seq, e.id AS entry, e.namespace, e.content, e.attributes, e.labels, e.header,
      c.id, c.cue, c.start_at, c.end_at
    FROM (SELECT * FROM entries WHERE live AND seq > $1 ORDER BY seq LIMIT $2) e
    LEFT JOIN chunks c ON c.entry = e.seq ORDER BY e.seq, c.ordinal"""
_GIVEN: Final = """unnest($1::bigint[], $2::text[], $3::tsvector[], $4::sparsevec[])
    AS made (chunk, namespace, words, weights)"""
_OTHER: Final = f"""SELECT count(*) FROM {_GIVEN} LEFT JOIN chunk_words kept USING (chunk)
    WHERE kept.words IS DISTINCT FROM made.words OR kept.weights <> made.weights
       OR kept.namespace <> made.namespace"""  # noqa: S608 - constants
_WRITE: Final = f"""INSERT INTO chunk_words AS kept (chunk, namespace, words, weights)
    SELECT chunk, namespace, words, weights FROM {_GIVEN}
    ON CONFLICT (chunk) DO UPDATE SET namespace = excluded.namespace, words = excluded.words,
      weights = excluded.weights"""  # noqa: S608 - constants
RULES: Final = "SELECT value FROM progress WHERE name = 'rules of words'"
REMEMBER_RULES: Final = """INSERT INTO progress (name, value) VALUES ('rules of words', $1)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value"""
STRAY: Final = "SELECT count(*) FROM chunk_words w WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE id = w.chunk)"


class WordSlice(NamedTuple):
    """The number of chunks written or found wrong in a slice, and its last entry; None at the end."""

    chunks: int
    last: int | None


async def compare(conn: Connection, after: int) -> WordSlice:
    """Count the chunks of a slice whose words do not match their texts."""
    rows = await conn.fetch(_CHUNKS, after, ENTRIES_PER_SLICE)
    wrong = await conn.fetchval(_OTHER, *await _made(rows))
    return WordSlice(wrong, rows[-1]["seq"] if rows else None)


async def write(conn: Connection, after: int) -> WordSlice:
    """Rebuild the words of a slice, locking its entries meanwhile."""
    entries = await conn.fetch(_CHUNKS, after, ENTRIES_PER_SLICE)
    await locks.lock_spaces_shared(conn)
    await locks.lock_entries(conn, [row["entry"] for row in entries])
    rows = await conn.fetch(_CHUNKS, after, ENTRIES_PER_SLICE)
    known = {row["entry"] for row in entries}
    made = await _made([row for row in rows if row["entry"] in known])
    await conn.execute(_WRITE, *made)
    return WordSlice(len(made[0]), entries[-1]["seq"] if entries else None)


async def _made(rows: Sequence[Any]) -> tuple[list[int], list[str], list[bytes], list[bytes]]:
    """Return the correct columns: chunks, namespaces, words and weights."""
    chunks = [row for row in rows if row["id"] is not None]
    words: Sequence[Words] = await asyncio.to_thread(words_of, [_texts(row) for row in chunks])
    return (
        [row["id"] for row in chunks],
        [row["namespace"] for row in chunks],
        [each.words for each in words],
        [each.weights for each in words],
    )


def _texts(row: Any) -> tuple[str, str]:
    """Return the text of a chunk and its labels."""
    texts = ChunkTexts(row["content"], stored_cues(row["attributes"]), row["labels"], row["header"])
    piece = Piece(row["cue"], row["start_at"], row["end_at"])
    return texts.text(piece), texts.labels_of(piece)
