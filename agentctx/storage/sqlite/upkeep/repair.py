"""Repairs the database: removes orphans, creates missing jobs, rebuilds indexes.

Each function is one step inside the caller's transaction, short enough for saves to continue in between; none
removes anything from a live entry. Steps that return a count are repeated until it is 0.
"""

from __future__ import annotations

from typing import Final

from agentctx.errors import StorageCorrupt
from agentctx.storage.chunk_texts import Piece, is_covered
from agentctx.storage.file.driver import FIRST_ID, LAST_ID, Connection
from agentctx.storage.records import Entry, Job
from agentctx.storage.sqlite.entries import chunks
from agentctx.storage.sqlite.entries.rows import SELECT_ROW, texts_of_version, verified
from agentctx.storage.sqlite.search import word_index
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.versions import rechunked

VECTORS_PER_STEP: Final = 10_000
ROWS_PER_STEP: Final = 10_000

_NOT_LIVE: Final = "NOT EXISTS (SELECT 1 FROM entries WHERE entries.seq = chunks.entry AND entries.live = 1)"
# The cross join keeps the order of the chunks, which the planner alone would sort for.
LIVE_CHUNKS: Final = "chunks CROSS JOIN entries ON entries.seq = chunks.entry AND entries.live = 1"


def remove_orphan_vectors(conn: Connection, limit: int = VECTORS_PER_STEP) -> int:
    """Remove vectors whose chunk is not live. A damaged table is left alone: it must be rebuilt."""
    live = {row[0] for row in conn.execute(f"SELECT chunks.id FROM {LIVE_CHUNKS}")}  # noqa: S608 - constant
    removed = 0
    for index in spaces.prepared(conn):
        orphans = [chunk for chunk in index.chunk_ids(conn) if chunk not in live][: limit - removed]
        dimension = spaces.get(conn, index.space).dimension
        if orphans and dimension and not index.faults(conn, dimension):
            index.delete(conn, orphans)
            removed += len(orphans)
    return removed


def remove_orphan_jobs(conn: Connection, limit: int = ROWS_PER_STEP) -> int:
    """Remove jobs of chunks that are not live, and of spaces that are not enabled."""
    return int(
        conn.execute(
            f"""DELETE FROM jobs WHERE id IN (
                  SELECT id FROM jobs WHERE chunk NOT IN (SELECT chunks.id FROM {LIVE_CHUNKS})
                    OR space NOT IN (SELECT id FROM spaces WHERE enabled = 1) LIMIT ?)""",  # noqa: S608 - constant
            (limit,),
        ).rowcount
    )


def remove_orphan_chunks(conn: Connection, limit: int = ROWS_PER_STEP) -> int:
    """Remove chunks of versions that are not live, after their jobs. Their words become orphaned."""
    return int(
        conn.execute(
            f"""DELETE FROM chunks WHERE id IN (SELECT id FROM chunks WHERE {_NOT_LIVE} LIMIT ?)
                AND id NOT IN (SELECT chunk FROM jobs)""",  # noqa: S608 - constant
            (limit,),
        ).rowcount
    )


def orphan_words(conn: Connection) -> int:
    """Count chunks that are gone but still have words; without their text, only a rebuild removes these."""
    chunks = {row[0] for row in conn.execute("SELECT id FROM chunks")}
    return len(word_index.indexed(conn, FIRST_ID, LAST_ID) - chunks)


def rechunk(conn: Connection, seq: int, entry: Entry, *, now: int, embed: bool) -> tuple[Job, ...]:
    """Create the chunks of a live version that has none, with their words and, if `embed`, their jobs."""
    labels, header, scope = conn.execute(
        "SELECT labels, header, scope FROM entries WHERE seq = ?", (seq,)
    ).fetchone()
    draft = rechunked(entry, labels=labels, header=header)
    return chunks.insert(conn, seq, entry.id, draft, scope, now=now, embed=embed)


def replace_chunks(conn: Connection, seq: int, *, now: int) -> str | None:
    """Replace the damaged or missing chunks of a live version.

    A damaged entry is left without chunks, since no answer may show it; then returns its id.
    """
    chunks.remove(conn, seq)
    row = conn.execute(f"{SELECT_ROW} WHERE e.seq = ?", (seq,)).fetchone()
    try:
        rechunk(conn, seq, verified(row), now=now, embed=True)
    except StorageCorrupt:
        return str(row[1])
    return None


def is_complete(conn: Connection, seq: int) -> bool:
    """Return whether the chunks of a live version are undamaged, and leave out nothing but white space."""
    cut = conn.execute(
        "SELECT ordinal, hash, cue, start_at, end_at FROM chunks WHERE entry = ? ORDER BY ordinal", (seq,)
    ).fetchall()
    texts = texts_of_version(conn, seq)
    pieces = [(index, ordinal, digest, Piece(*piece)) for index, (ordinal, digest, *piece) in enumerate(cut)]
    return is_covered(texts, [piece for *_, piece in pieces]) and all(
        ordinal == index and texts.is_sound(piece, digest) for index, ordinal, digest, piece in pieces
    )
