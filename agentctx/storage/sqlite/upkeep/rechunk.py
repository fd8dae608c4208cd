"""Cuts a live entry into chunks again; inside the caller's transaction."""

from __future__ import annotations

from agentctx.errors import StorageCorrupt
from agentctx.sqlite.driver import Connection
from agentctx.storage.chunk_texts import Piece, is_covered
from agentctx.storage.records import Entry, Job
from agentctx.storage.sqlite.entries import chunks
from agentctx.storage.sqlite.entries.chunk_texts import texts_of_version
from agentctx.storage.sqlite.entries.rows import SELECT_ROW, verified
from agentctx.storage.versions import rechunked


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
    pieces = [(place, ordinal, digest, Piece(*piece)) for place, (ordinal, digest, *piece) in enumerate(cut)]
    return is_covered(texts, [piece for *_, piece in pieces]) and all(
        ordinal == place and texts.is_sound(piece, digest) for place, ordinal, digest, piece in pieces
    )
