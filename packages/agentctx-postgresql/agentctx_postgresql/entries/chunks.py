"""Chunks of a live version with their words, jobs and vectors, which are written and removed together.

Jobs are removed before vectors, so a concurrent `complete` has either stored its vector, which is then
visible here, or finds its job gone. Callers that add or remove chunks must call `locks.lock_spaces_shared`
first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from agentctx.storage.chunk_texts import ChunkTexts, Piece, cues_of, stored_cues, text_hash
from agentctx.storage.records import Draft, Job
from agentctx.storage.versions import SaveCommand
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.search.terms import Words, words_of


class Reservation(NamedTuple):
    """The lease on new jobs of the daemon that has them in memory; `until` is by the server's clock."""

    daemon: str
    until: int


RESERVED_MS: Final = 120_000
"""How long a new job is reserved for the daemon that has it in memory."""
_ENABLED: Final = "SELECT id FROM spaces WHERE enabled ORDER BY id"
ENABLED: Final = f"ARRAY({_ENABLED})"
_PREPARED: Final = """SELECT id FROM spaces WHERE dimension IS NOT NULL AND state <> 'retired'
    AND to_regclass('vec_' || id) IS NOT NULL"""
INSERTING: Final = """
given AS (
  SELECT * FROM unnest($1::text[], $2::int[], $3::int[], $4::int[], $5::int[], $6::bytea[], $7::tsvector[],
    $8::sparsevec[], $9::int[], $10::bigint[], $11::bigint[])
    AS g (id, ordinal, cue, start_at, end_at, hash, words, weights, chunking, leased_until, made)),
added AS (
  INSERT INTO chunks (entry, ordinal, cue, start_at, end_at, hash, chunking)
  SELECT version.seq, ordinal, cue, start_at, end_at, hash, chunking FROM given JOIN version USING (id)
  WHERE version.live ORDER BY version.seq, ordinal
  RETURNING id, entry, ordinal),
made AS (
  SELECT added.id AS chunk, version.seq AS entry, version.namespace, given.*
  FROM added JOIN version ON version.seq = added.entry
    JOIN given ON given.id = version.id AND given.ordinal = added.ordinal),
worded AS (
  INSERT INTO chunk_words (chunk, namespace, words, weights)
  SELECT chunk, namespace, words, weights FROM made),
created AS (
  INSERT INTO jobs (chunk, space, hash, leased_until, daemon, reserved, created)
  SELECT made.chunk, spaces.id, made.hash, leased_until, $12, true, made.made
  FROM made JOIN spaces ON spaces.enabled AND leased_until IS NOT NULL ORDER BY made.chunk, spaces.id
  RETURNING id, chunk, space, hash)"""
"""CTEs that insert the chunks of the live rows of `version` (seq, id, namespace, live) with their words and
jobs; `columns` returns the parameters."""
PARAMETERS: Final = 12
CREATED_JOBS: Final = (
    "(SELECT created.*, made.entry, made.ordinal FROM created JOIN made USING (chunk)) AS job"
)
"""The created jobs, each with its entry and the ordinal of its chunk."""
_INSERT: Final = f"""
WITH version AS (SELECT seq, id, namespace, live FROM entries WHERE seq = $13), {INSERTING}
SELECT job.id, job.chunk, job.space, job.hash, job.ordinal FROM {CREATED_JOBS} ORDER BY job.id"""  # noqa: S608 - constants
_REPLACE: Final = """
WITH replaced AS (UPDATE entries SET live = false WHERE seq = $1) SELECT remove_chunks($1)"""
_CREATE_JOBS: Final = """
WITH given AS (
  SELECT chunk, hash, place FROM unnest($1::bigint[], $2::bytea[]) WITH ORDINALITY AS g (chunk, hash, place))
INSERT INTO jobs (chunk, space, hash, leased_until, daemon, reserved, created)
SELECT chunk, space, hash, $4, $5, true, $6 FROM given CROSS JOIN unnest($3::int[]) AS space
ORDER BY place, space
RETURNING id, chunk, space, hash"""


async def prepared(conn: Connection) -> list[int]:
    """Return the spaces that have a vector table."""
    return [row[0] for row in await conn.fetch(_PREPARED)]


class NewChunks(NamedTuple):
    """The chunks of a new live version, ready to be written."""

    entry_id: str
    draft: Draft
    pieces: Sequence[Piece]
    embedded: Sequence[str]
    words: Sequence[Words]
    reservation: Reservation | None
    """None if no jobs are to be created."""
    now: int
    first: int = 0
    """The ordinal of the first of them."""

    def jobs(self, rows: Iterable[Any]) -> tuple[Job, ...]:
        """Build the jobs from rows with id, chunk, space, hash and the ordinal of the chunk."""
        whose = (self.entry_id, self.draft.collection)
        return tuple(
            Job(number, chunk, space, digest, self.embedded[ordinal - self.first], *whose)
            for number, chunk, space, digest, ordinal in rows
        )

    def only_cues(self, *, first: int) -> NewChunks:
        """Return the cues alone, with ordinals from `first` on."""
        cues = slice(len([piece for piece in self.pieces if not piece.cue]), None)
        return self._replace(
            pieces=self.pieces[cues], embedded=self.embedded[cues], words=self.words[cues], first=first
        )


def reservation(command: SaveCommand) -> Reservation | None:
    """Return the lease on the jobs of a save, or None if it creates none."""
    return Reservation(command.daemon, command.now + RESERVED_MS) if command.embed else None


def build(entry_id: str, draft: Draft, *, now: int, reservation: Reservation | None) -> NewChunks:
    """Build the chunks of a draft; none in quarantine, when it has no spans. Takes 0.3 ms per chunk."""
    texts = _texts_of(draft)
    pieces = texts.pieces(draft.spans)
    words = words_of([(texts.text(piece), texts.labels_of(piece)) for piece in pieces])
    embedded = [texts.embedded(piece) for piece in pieces]
    return NewChunks(entry_id, draft, pieces, embedded, words, reservation, now)


def columns(new: Sequence[NewChunks]) -> list[Any]:
    """Return the parameters of `INSERTING`."""
    rows = [
        (
            each.entry_id,
            ordinal,
            *piece,
            text_hash(text),
            *words,
            each.draft.chunking,
            each.reservation.until if each.reservation else None,
            each.now,
        )
        for each in new
        for ordinal, (piece, text, words) in enumerate(
            zip(each.pieces, each.embedded, each.words, strict=True), each.first
        )
    ]
    filled = [list(column) for column in zip(*rows, strict=True)]
    return [
        *(filled or [[] for _ in range(PARAMETERS - 1)]),
        next((each.reservation.daemon for each in new if each.reservation), None),
    ]


async def insert(conn: Connection, seq: int, new: NewChunks) -> tuple[Job, ...]:
    """Insert the chunks of a live version that has none, with their words and jobs."""
    return new.jobs(await conn.fetch(_INSERT, *columns([new]), seq))


async def remove(conn: Connection, seq: int) -> None:
    """Remove the chunks of a version, with their jobs, vectors and words."""
    await conn.fetchval("SELECT remove_chunks($1)", seq)


async def replace_version(conn: Connection, seq: int) -> None:
    """Make a live version an old one, which has no chunks."""
    await conn.fetchval(_REPLACE, seq)


async def carry(
    conn: Connection,
    before: int,
    seq: int,
    old: ChunkTexts,
    entry_id: str,
    draft: Draft,
    command: SaveCommand,
) -> tuple[Job, ...]:
    """Give the chunks of the row `before`, with the texts `old`, to the row `seq` with the same content.

    Chunks keep their ids. Words change only with the labels, vectors only with the embedded text.
    """
    texts = _texts_of(draft)
    rows = await conn.fetch(
        "SELECT id, cue, start_at, end_at, hash, ordinal FROM chunks WHERE entry = $1 ORDER BY ordinal",
        before,
    )
    if texts.cues != old.cues:
        await _remove_rows(conn, [row[0] for row in rows if row[1]])
        rows = [row for row in rows if not row[1]]
    pieces = {row[0]: Piece(*row[1:4]) for row in rows}
    changed = {row[0]: texts.embedded(pieces[row[0]]) for row in rows}
    changed = {row[0]: changed[row[0]] for row in rows if text_hash(changed[row[0]]) != row[4]}
    # Jobs before chunks: a `complete` holds its job while it waits for a chunk.
    await _set_hashes(conn, changed)
    if before != seq:
        await conn.execute("UPDATE chunks SET entry = $2 WHERE entry = $1", before, seq)
    if texts.labels != old.labels and pieces:
        await _index_again(conn, texts, pieces)
    jobs = await _create_jobs(conn, changed, entry_id, draft.collection, command)
    if texts.cues == old.cues or not rows:
        return jobs
    new = build(entry_id, draft, now=command.now, reservation=reservation(command))
    new = new.only_cues(first=rows[-1][5] + 1)
    return jobs + await insert(conn, seq, new)


async def texts_of_version(conn: Connection, seq: int) -> ChunkTexts:
    """Return the texts of a stored version."""
    content, attributes, labels, header = await conn.fetchrow(
        "SELECT content, attributes, labels, header FROM entries WHERE seq = $1", seq
    )
    return ChunkTexts(content, stored_cues(attributes), labels, header)


def _texts_of(draft: Draft) -> ChunkTexts:
    return ChunkTexts(draft.content, cues_of(draft.attributes), draft.labels, draft.header)


async def _remove_rows(conn: Connection, chunk_ids: Sequence[int]) -> None:
    await _forget_vectors(conn, chunk_ids)
    await conn.execute("DELETE FROM chunk_words WHERE chunk = ANY ($1::bigint[])", list(chunk_ids))
    await conn.execute("DELETE FROM chunks WHERE id = ANY ($1::bigint[])", list(chunk_ids))


async def _set_hashes(conn: Connection, changed: Mapping[int, str]) -> None:
    """Forget the jobs and vectors of chunks whose embedded text changes to these."""
    if not changed:
        return
    await _forget_vectors(conn, list(changed))
    await conn.execute(
        """UPDATE chunks SET hash = g.hash FROM unnest($1::bigint[], $2::bytea[]) AS g (chunk, hash)
           WHERE chunks.id = g.chunk""",
        list(changed),
        [text_hash(text) for text in changed.values()],
    )


async def _index_again(conn: Connection, texts: ChunkTexts, pieces: Mapping[int, Piece]) -> None:
    words = await _words_of(texts, list(pieces.values()))
    await conn.execute(
        """UPDATE chunk_words SET words = g.words, weights = g.weights
           FROM unnest($1::bigint[], $2::tsvector[], $3::sparsevec[]) AS g (chunk, words, weights)
           WHERE chunk_words.chunk = g.chunk""",
        list(pieces),
        *(list(column) for column in zip(*words, strict=True)),
    )


async def _words_of(texts: ChunkTexts, pieces: Sequence[Piece]) -> Sequence[Any]:
    given = [(texts.text(piece), texts.labels_of(piece)) for piece in pieces]
    return await asyncio.to_thread(words_of, given)


async def _create_jobs(
    conn: Connection, texts: Mapping[int, str], entry_id: str, collection: str, command: SaveCommand
) -> tuple[Job, ...]:
    """Create a job for each chunk and enabled space."""
    lease = reservation(command)
    if lease is None or not texts:
        return ()
    hashes = [text_hash(text) for text in texts.values()]
    enabled = [row[0] for row in await conn.fetch(_ENABLED)]
    rows = await conn.fetch(
        _CREATE_JOBS, list(texts), hashes, enabled, lease.until, lease.daemon, command.now
    )
    return tuple(
        Job(number, chunk, space, digest, texts[chunk], entry_id, collection)
        for number, chunk, space, digest in sorted(rows)
    )


async def _forget_vectors(conn: Connection, chunk_ids: Sequence[int]) -> None:
    await conn.execute("DELETE FROM jobs WHERE chunk = ANY ($1::bigint[])", list(chunk_ids))
    for space in await prepared(conn):
        await conn.execute(f"DELETE FROM vec_{space:d} WHERE chunk = ANY ($1::bigint[])", list(chunk_ids))  # noqa: S608 - a number
