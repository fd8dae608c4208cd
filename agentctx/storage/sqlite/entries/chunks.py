"""Chunks of a live version with their words, jobs and vectors, always written and removed together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agentctx.storage.chunk_texts import ChunkTexts, Piece, cues_of, text_hash
from agentctx.storage.file.driver import Connection
from agentctx.storage.passage_traits import traits_of
from agentctx.storage.records import Draft, Job
from agentctx.storage.sqlite.entries.rows import texts_of_version
from agentctx.storage.sqlite.search import word_index
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.words import index_terms

_NO_TRAITS = (None,) * 4
"""Of a cue, which is never ranked by itself."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A stored chunk with the compound terms that FTS has for it."""

    id: int
    ordinal: int
    piece: Piece
    hash: bytes
    terms: str


@dataclass(frozen=True, slots=True)
class _Jobs:
    """Makes the jobs for chunks of an entry: one for each of the spaces."""

    conn: Connection
    entry_id: str
    collection: str
    now: int
    spaces: Sequence[int]

    def add(self, chunk: int, text: str) -> Iterator[Job]:
        digest = text_hash(text)
        for space in self.spaces:
            job = self.conn.execute(
                """INSERT INTO jobs (chunk, space, hash, state, attempts, not_before, leased_until, created)
                   VALUES (?, ?, ?, 'pending', 0, 0, 0, ?)""",
                (chunk, space, digest, self.now),
            ).lastrowid
            assert job is not None  # noqa: S101 - an INSERT always has one; this is for the type checker
            yield Job(job, chunk, space, digest, text, self.entry_id, self.collection)


def insert(
    conn: Connection, seq: int, entry_id: str, draft: Draft, scope: str, *, now: int, embed: bool
) -> tuple[Job, ...]:
    """Write the chunks of a new live version with their words and, if `embed`, a job per enabled space."""
    texts = _texts_of(draft, scope)
    pieces = enumerate(texts.pieces(draft.spans))
    making = _Jobs(conn, entry_id, draft.collection, now, spaces.enabled_ids(conn) if embed else ())
    return _insert_pieces(making, seq, draft, texts, pieces)


def _insert_pieces(
    making: _Jobs, seq: int, draft: Draft, texts: ChunkTexts, pieces: Iterable[tuple[int, Piece]]
) -> tuple[Job, ...]:
    conn = making.conn
    jobs: list[Job] = []
    words: list[word_index.WordRow] = []
    for ordinal, piece in pieces:
        text, embedded = texts.text(piece), texts.embedded(piece)
        terms = index_terms(text)
        traits = _NO_TRAITS if piece.cue else traits_of(text)
        chunk = conn.execute(
            """INSERT INTO chunks
                 (entry, ordinal, cue, start_at, end_at, hash, terms, chunking, words, speaker, asks, times)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            (seq, ordinal, *piece, text_hash(embedded), terms, draft.chunking, *traits),
        ).lastrowid
        assert chunk is not None  # noqa: S101 - an INSERT always has one; this is for the type checker
        words.append((chunk, text, texts.labels_of(piece), terms, texts.scope))
        jobs += making.add(chunk, embedded)
    if words:
        word_index.insert(conn, words)
    return tuple(jobs)


def remove(conn: Connection, seq: int) -> None:
    """Remove the chunks of a version with their words, jobs and vectors.

    Words go first, while the entry still has the text they were made from. Words of a damaged text stay, for
    the census to count: deleting different words from FTS5 would make every search for the old ones fail.
    """
    _remove_rows(conn, _rows(conn, seq), texts_of_version(conn, seq))


def carry(
    conn: Connection,
    before: int,
    seq: int,
    old: ChunkTexts,
    entry_id: str,
    draft: Draft,
    scope: str,
    *,
    now: int,
    embed: bool,
) -> tuple[Job, ...]:
    """Give the chunks of the row `before`, with the texts `old`, to the row `seq` with the same content.

    Chunks keep their ids. Words change only with labels and scope, vectors only with the embedded text.
    """
    texts = _texts_of(draft, scope)
    rows = _rows(conn, before)
    if old.cues != texts.cues:
        _remove_rows(conn, [row for row in rows if row.piece.cue], old)
        rows = [row for row in rows if not row.piece.cue]
    if before != seq:
        conn.execute("UPDATE chunks SET entry = ? WHERE entry = ?", (seq, before))
    _index_again(conn, rows, old, texts)
    if old.scope != texts.scope:
        _place_vectors(conn, [row.id for row in rows], draft)
    making = _Jobs(conn, entry_id, draft.collection, now, spaces.enabled_ids(conn) if embed else ())
    jobs = _embed_again(making, rows, texts)
    if old.cues == texts.cues or not rows:
        return jobs
    cues = enumerate(texts.pieces(draft.spans)[len(draft.spans) :], rows[-1].ordinal + 1)
    return jobs + _insert_pieces(making, seq, draft, texts, cues)


def _index_again(conn: Connection, rows: Sequence[_Row], old: ChunkTexts, texts: ChunkTexts) -> None:
    if (old.labels, old.scope) == (texts.labels, texts.scope):
        return
    sound = [row for row in rows if old.is_sound(row.piece, row.hash)]
    _forget_words(conn, sound, old)
    word_index.insert(conn, (texts.words(row.id, row.piece, row.terms) for row in sound))


def _place_vectors(conn: Connection, chunk_ids: Sequence[int], draft: Draft) -> None:
    """Move undamaged vectors to the draft's session."""
    for index in spaces.prepared(conn):
        rows = index.sound(conn, chunk_ids)
        index.delete(conn, [row[0] for row in rows])
        scope = (draft.namespace, draft.collection, draft.session)
        index.insert(conn, [(row[0], *scope, row[4]) for row in rows])


def _remove_rows(conn: Connection, rows: Sequence[_Row], texts: ChunkTexts) -> None:
    _forget_words(conn, [row for row in rows if texts.is_sound(row.piece, row.hash)], texts)
    ids = [row.id for row in rows]
    _forget_vectors(conn, ids)
    among = "IN (SELECT value FROM json_each(?))"
    conn.execute(f"DELETE FROM jobs WHERE chunk {among}", (json.dumps(ids),))  # noqa: S608 - constant
    conn.execute(f"DELETE FROM chunks WHERE id {among}", (json.dumps(ids),))  # noqa: S608 - constant


def _embed_again(making: _Jobs, rows: Sequence[_Row], texts: ChunkTexts) -> tuple[Job, ...]:
    conn = making.conn
    changed = [row for row in rows if text_hash(texts.embedded(row.piece)) != row.hash]
    _forget_vectors(conn, [row.id for row in changed])
    jobs: list[Job] = []
    for row in changed:
        text = texts.embedded(row.piece)
        conn.execute("UPDATE chunks SET hash = ? WHERE id = ?", (text_hash(text), row.id))
        conn.execute("DELETE FROM jobs WHERE chunk = ?", (row.id,))
        jobs += making.add(row.id, text)
    return tuple(jobs)


def _texts_of(draft: Draft, scope: str) -> ChunkTexts:
    return ChunkTexts(draft.content, cues_of(draft.attributes), draft.labels, draft.header, scope)


def _rows(conn: Connection, seq: int) -> list[_Row]:
    rows = conn.execute(
        """SELECT id, ordinal, cue, start_at, end_at, hash, terms FROM chunks
           WHERE entry = ? ORDER BY ordinal""",
        (seq,),
    )
    return [
        _Row(chunk, ordinal, Piece(*piece), digest, terms) for chunk, ordinal, *piece, digest, terms in rows
    ]


def _forget_words(conn: Connection, rows: Sequence[_Row], texts: ChunkTexts) -> None:
    word_index.remove(conn, [texts.words(row.id, row.piece, row.terms) for row in rows])


def _forget_vectors(conn: Connection, chunk_ids: Sequence[int]) -> None:
    for index in spaces.prepared(conn):
        index.delete(conn, chunk_ids)
