"""Chunks of a live version with their words, jobs and vectors: always written and removed together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentctx.chunking.base import Span
from agentctx.sqlite.driver import Connection
from agentctx.storage.embedding_text import embedding_text, text_hash
from agentctx.storage.records import Draft, Job
from agentctx.storage.sqlite import checksums
from agentctx.storage.sqlite.search import word_index
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.words import index_terms


@dataclass(frozen=True, slots=True)
class _Row:
    """A stored chunk with the exact words that FTS holds for it."""

    id: int
    span: Span
    hash: bytes
    text: str
    terms: str


def insert(
    conn: Connection, seq: int, entry_id: str, draft: Draft, scope: str, *, now: int, owed: bool
) -> tuple[Job, ...]:
    """Write the chunks of a new live version, their words and, if `owed`, a job for each enabled space.

    The slices are cut here: slicing in SQL is quadratic in the length of the content.
    """
    enabled = spaces.enabled_ids(conn) if owed else ()
    jobs: list[Job] = []
    for ordinal, span in enumerate(draft.spans):
        text = draft.content[span.start : span.end]
        embedded = embedding_text(draft.header, text)
        terms = index_terms(text)
        chunk = conn.execute(
            """INSERT INTO chunks (entry, ordinal, start_at, end_at, hash, terms, chunking)
               VALUES (?, ?, ?, ?, ?, ?, ?)""",
            (seq, ordinal, span.start, span.end, text_hash(embedded), terms, draft.chunking),
        ).lastrowid
        assert chunk is not None  # noqa: S101 - an INSERT always has one; this is for the type checker
        word_index.insert(conn, [(chunk, text, draft.labels, terms, scope)])
        jobs += [
            _insert_job(conn, chunk, space, embedded, entry_id, draft.collection, now) for space in enabled
        ]
    return tuple(jobs)


def remove(conn: Connection, seq: int) -> None:
    """Remove the chunks of a version with words, jobs and vectors.

    Words go first, while the entry still holds the text they were made of. Those of a damaged text stay, for
    the census to count: FTS5, given other words, would fail every search for the old ones.
    """
    content, labels, scope = _texts(conn, seq)
    rows = _rows(conn, seq, content)
    (header,) = conn.execute("SELECT header FROM entries WHERE seq = ?", (seq,)).fetchone()
    sound = [
        row
        for row in rows
        if checksums.is_chunk(content, row.span.start, row.span.end, header=header, digest=row.hash)
    ]
    _forget_words(conn, sound, labels, scope)
    _forget_vectors(conn, [row.id for row in rows])
    conn.execute("DELETE FROM jobs WHERE chunk IN (SELECT id FROM chunks WHERE entry = ?)", (seq,))
    conn.execute("DELETE FROM chunks WHERE entry = ?", (seq,))


def relabel(conn: Connection, seq: int, draft: Draft, *, now: int, owed: bool) -> tuple[Job, ...]:
    """Give a version new labels and a new header; embed again only where the embedded text changes."""
    content, labels, scope = _texts(conn, seq)
    rows = _rows(conn, seq, content)
    if draft.labels != labels:
        _forget_words(conn, rows, labels, scope)
    entry_id = conn.execute(
        "UPDATE entries SET labels = ?, header = ? WHERE seq = ? RETURNING id",
        (draft.labels, draft.header, seq),
    ).fetchone()[0]
    if draft.labels != labels:
        word_index.insert(conn, ((row.id, row.text, draft.labels, row.terms, scope) for row in rows))
    return _embed_again(conn, rows, entry_id, draft, now=now, owed=owed)


def _embed_again(
    conn: Connection, rows: Sequence[_Row], entry_id: str, draft: Draft, *, now: int, owed: bool
) -> tuple[Job, ...]:
    texts = {row.id: embedding_text(draft.header, row.text) for row in rows}
    changed = [row for row in rows if text_hash(texts[row.id]) != row.hash]
    _forget_vectors(conn, [row.id for row in changed])
    enabled = spaces.enabled_ids(conn) if owed else ()
    jobs: list[Job] = []
    for row in changed:
        text = texts[row.id]
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


def _texts(conn: Connection, seq: int) -> tuple[str, str, str]:
    row = conn.execute("SELECT content, labels, scope FROM entries WHERE seq = ?", (seq,)).fetchone()
    return row[0], row[1], row[2]


def _rows(conn: Connection, seq: int, content: str) -> list[_Row]:
    rows = conn.execute(
        "SELECT id, start_at, end_at, hash, terms FROM chunks WHERE entry = ? ORDER BY ordinal", (seq,)
    )
    return [
        _Row(chunk, Span(start, end), digest, content[start:end], terms)
        for chunk, start, end, digest, terms in rows
    ]


def _forget_words(conn: Connection, rows: Sequence[_Row], labels: str, scope: str) -> None:
    word_index.remove(conn, [(row.id, row.text, labels, row.terms, scope) for row in rows])


def _forget_vectors(conn: Connection, chunk_ids: Sequence[int]) -> None:
    for index in spaces.prepared(conn):
        index.delete(conn, chunk_ids)
