"""Chunks of a live version with their words, jobs and vectors, always written and removed together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentctx.sqlite.driver import Connection
from agentctx.storage.chunk_texts import ChunkTexts, Piece, cues_of, text_hash
from agentctx.storage.records import Draft, Job
from agentctx.storage.sqlite.entries.rows import texts_of_version
from agentctx.storage.sqlite.search import word_index
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.words import index_terms


@dataclass(frozen=True, slots=True)
class _Row:
    """A stored chunk with the compound terms that FTS has for it."""

    id: int
    piece: Piece
    hash: bytes
    terms: str


def insert(
    conn: Connection, seq: int, entry_id: str, draft: Draft, scope: str, *, now: int, embed: bool
) -> tuple[Job, ...]:
    """Write the chunks of a new live version with their words and, if `embed`, a job per enabled space."""
    enabled = spaces.enabled_ids(conn) if embed else ()
    texts = _texts_of(draft, scope)
    jobs: list[Job] = []
    words: list[word_index.WordRow] = []
    for ordinal, piece in enumerate(texts.pieces(draft.spans)):
        text, embedded = texts.text(piece), texts.embedded(piece)
        terms = index_terms(text)
        chunk = conn.execute(
            """INSERT INTO chunks (entry, ordinal, start_at, end_at, hash, terms, chunking, cue)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                seq,
                ordinal,
                piece.start,
                piece.end,
                text_hash(embedded),
                terms,
                draft.chunking,
                piece.cue,
            ),
        ).lastrowid
        assert chunk is not None  # noqa: S101 - an INSERT always has one; this is for the type checker
        words.append((chunk, text, texts.labels_of(piece), terms, scope))
        jobs += [
            _insert_job(conn, chunk, space, embedded, entry_id, draft.collection, now) for space in enabled
        ]
    if words:
        word_index.insert(conn, words)
    return tuple(jobs)


def remove(conn: Connection, seq: int) -> None:
    """Remove the chunks of a version with their words, jobs and vectors.

    Words go first, while the entry still has the text they were made from. Words of a damaged text stay, for
    the census to count: deleting different words from FTS5 would make every search for the old ones fail.
    """
    texts = texts_of_version(conn, seq)
    rows = _rows(conn, seq)
    _forget_words(conn, [row for row in rows if texts.is_sound(row.piece, row.hash)], texts)
    _forget_vectors(conn, [row.id for row in rows])
    conn.execute("DELETE FROM jobs WHERE chunk IN (SELECT id FROM chunks WHERE entry = ?)", (seq,))
    conn.execute("DELETE FROM chunks WHERE entry = ?", (seq,))


def relabel(conn: Connection, seq: int, draft: Draft, *, now: int, embed: bool) -> tuple[Job, ...]:
    """Change the labels and the header of a version; embed again only where the embedded text changes."""
    texts = texts_of_version(conn, seq)
    rows = _rows(conn, seq)
    relabeled = replace(texts, labels=draft.labels, header=draft.header)
    if draft.labels != texts.labels:
        _forget_words(conn, rows, texts)
    entry_id = conn.execute(
        "UPDATE entries SET labels = ?, header = ? WHERE seq = ? RETURNING id",
        (draft.labels, draft.header, seq),
    ).fetchone()[0]
    if draft.labels != texts.labels:
        word_index.insert(conn, (relabeled.words(row.id, row.piece, row.terms) for row in rows))
    return _embed_again(conn, rows, relabeled, entry_id, draft, now=now, embed=embed)


def _embed_again(
    conn: Connection,
    rows: Sequence[_Row],
    texts: ChunkTexts,
    entry_id: str,
    draft: Draft,
    *,
    now: int,
    embed: bool,
) -> tuple[Job, ...]:
    changed = [row for row in rows if text_hash(texts.embedded(row.piece)) != row.hash]
    _forget_vectors(conn, [row.id for row in changed])
    enabled = spaces.enabled_ids(conn) if embed else ()
    jobs: list[Job] = []
    for row in changed:
        text = texts.embedded(row.piece)
        conn.execute("UPDATE chunks SET hash = ? WHERE id = ?", (text_hash(text), row.id))
        conn.execute("DELETE FROM jobs WHERE chunk = ?", (row.id,))
        jobs += [_insert_job(conn, row.id, space, text, entry_id, draft.collection, now) for space in enabled]
    return tuple(jobs)


def _insert_job(
    conn: Connection, chunk: int, space: int, text: str, entry_id: str, collection: str, now: int
) -> Job:
    digest = text_hash(text)
    job = conn.execute(
        """INSERT INTO jobs (chunk, space, hash, state, attempts, not_before, leased_until, created)
           VALUES (?, ?, ?, 'pending', 0, 0, 0, ?)""",
        (chunk, space, digest, now),
    ).lastrowid
    assert job is not None  # noqa: S101 - an INSERT always has one; this is for the type checker
    return Job(job, chunk, space, digest, text, entry_id, collection)


def _texts_of(draft: Draft, scope: str) -> ChunkTexts:
    return ChunkTexts(draft.content, cues_of(draft.attributes), draft.labels, draft.header, scope)


def _rows(conn: Connection, seq: int) -> list[_Row]:
    rows = conn.execute(
        "SELECT id, cue, start_at, end_at, hash, terms FROM chunks WHERE entry = ? ORDER BY ordinal", (seq,)
    )
    return [
        _Row(chunk, Piece(cue, start, end), digest, terms) for chunk, cue, start, end, digest, terms in rows
    ]


def _forget_words(conn: Connection, rows: Sequence[_Row], texts: ChunkTexts) -> None:
    word_index.remove(conn, [texts.words(row.id, row.piece, row.terms) for row in rows])


def _forget_vectors(conn: Connection, chunk_ids: Sequence[int]) -> None:
    for index in spaces.prepared(conn):
        index.delete(conn, chunk_ids)
