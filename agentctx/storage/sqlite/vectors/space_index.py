"""The index over the vectors of one space: the vec0 table `vec_<space>`.

It requires a transaction and a namespace, and deals in chunk ids and distances.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, NamedTuple

import numpy as np

from agentctx.storage.file import vec0
from agentctx.storage.file.driver import FIRST_ID, LAST_ID, Connection, mapped
from agentctx.storage.search import NearestChunk
from agentctx.storage.sqlite import checksums
from agentctx.storage.sqlite.vectors import vec0_shadow
from agentctx.storage.sqlite.vectors.vector_cache import Numbers, StoredVector
from agentctx.storage.vectors import Vectors

_STRAYS: Final = """
SELECT COUNT(*) FROM {table} AS vectors
CROSS JOIN chunks ON chunks.id = vectors.id CROSS JOIN entries ON entries.seq = chunks.entry
WHERE (vectors.namespace, vectors.collection, vectors.session)
   <> (entries.namespace, entries.collection, entries.session)
"""
# Only a join looks each id up; `id IN (…)` without MATCH scans the whole table.
_STORED: Final = """
SELECT vectors.id, vectors.namespace, vectors.collection, vectors.session, vectors.embedding, proof.checksum
FROM json_each(?) AS wanted CROSS JOIN {table} AS vectors ON vectors.id = wanted.value
LEFT JOIN vector_checksums AS proof ON proof.space = ? AND proof.chunk = vectors.id
"""
# The place comes from the entry: reading vec0's columns takes four times as long as the rest, and resolving a
# chunk detects a vector in the wrong place anyway.
_OF_ENTRIES: Final = """
SELECT vectors.id, entries.namespace, entries.collection, entries.session, vectors.embedding, proof.checksum,
  entries.id, chunks.cue
FROM json_each(?) AS wanted CROSS JOIN {table} AS vectors ON vectors.id = wanted.value
CROSS JOIN chunks ON chunks.id = wanted.value CROSS JOIN entries ON entries.seq = chunks.entry
LEFT JOIN vector_checksums AS proof ON proof.space = ? AND proof.chunk = wanted.value
"""
_CHECKSUMS: Final = """
SELECT proof.chunk, proof.checksum FROM json_each(?) AS wanted
CROSS JOIN vector_checksums AS proof ON proof.space = ? AND proof.chunk = wanted.value
"""
# The + keeps the planner from sorting the whole space for each slice.
_SEQS_AFTER: Final = """
SELECT chunk, seq, checksum FROM vector_checksums WHERE seq > ? AND +space = ? ORDER BY seq LIMIT ?
"""
_PLACED: Final = """
SELECT wanted.value, entries.namespace, entries.collection, entries.session, vectors.embedding
FROM json_each(?) AS wanted CROSS JOIN {table} AS vectors ON vectors.id = wanted.value
CROSS JOIN chunks ON chunks.id = wanted.value CROSS JOIN entries ON entries.seq = chunks.entry
"""
_UNSEALED: Final = """
SELECT id, namespace, collection, session, embedding FROM {table}
WHERE id NOT IN (SELECT chunk FROM vector_checksums WHERE space = ?)
"""
TOLERANCE: Final = 1e-3
"""Two ways of computing a cosine differ by less than this."""


@dataclass(frozen=True, slots=True)
class MeasuredChunks:
    """The chunks of the undamaged vectors with exact distances, and the chunks whose vector is damaged."""

    found: Mapping[int, NearestChunk]
    """By chunk; `cue` says that the chunk is a cue."""
    damaged: frozenset[int] = frozenset()

    def nearest(self, limit: int) -> list[NearestChunk]:
        """Return the nearest, equal distances by chunk."""
        return sorted(self.found.values(), key=lambda hit: (hit.distance, hit.chunk))[:limit]


class VerifiedVector(NamedTuple):
    """A vector (float32) that matched its checksum, with its entry."""

    chunk: int
    entry: str
    vector: bytes
    checksum: bytes
    is_cue: bool


@dataclass(frozen=True, slots=True)
class VectorPage:
    """Undamaged vectors by ascending seq, up to `last`; `is_all` if there are no more."""

    vectors: Sequence[StoredVector]
    last: int
    is_all: bool
    damaged: frozenset[int] = frozenset()
    """The chunks whose vector is damaged."""


@dataclass(frozen=True, slots=True)
class SpaceIndex:
    """The vectors of the space with this id. The table must exist (`create`)."""

    space: int

    @property
    def table(self) -> str:
        return f"vec_{self.space}"

    def exists(self, conn: Connection) -> bool:
        """Return whether the table exists with all its parts: vec0 crashes the process if one is missing."""
        return not vec0_shadow.missing_tables(conn, self.table)

    def create(self, conn: Connection, dimension: int) -> None:
        vec0.create_space_table(conn, self.table, dimension)

    def drop(self, conn: Connection) -> None:
        """Drop the table, or whatever remains of it."""
        vec0_shadow.drop(conn, self.table)
        conn.execute("DELETE FROM vector_checksums WHERE space = ?", (self.space,))

    def insert(self, conn: Connection, rows: Sequence[vec0.VectorRow]) -> None:
        """Store vectors of chunks that have none in this space."""
        vec0.insert_vectors(conn, self.table, rows)
        self._seal(conn, rows)

    def delete(self, conn: Connection, chunks: Sequence[int]) -> None:
        vec0.delete_vectors(conn, self.table, chunks)
        conn.executemany(
            "DELETE FROM vector_checksums WHERE space = ? AND chunk = ?",
            [(self.space, chunk) for chunk in chunks],
        )

    def checksums(self, conn: Connection, chunks: Sequence[int]) -> dict[int, bytes]:
        """Return the checksums of the chunks' vectors."""
        return dict(conn.execute(_CHECKSUMS, (json.dumps(chunks), self.space)).fetchall()) if chunks else {}

    def verified(
        self, conn: Connection, chunks: Sequence[int]
    ) -> tuple[list[VerifiedVector], frozenset[int]]:
        """Return the undamaged vectors of the chunks, and the chunks whose vector is damaged."""
        if not chunks:
            return [], frozenset()
        with mapped(conn):
            rows = self._proofs(conn, _OF_ENTRIES, chunks)
        damaged = _damaged(rows)
        sound = [row for row in rows if row[0] not in damaged]
        return [VerifiedVector(row[0], row[6], row[4], row[5], bool(row[7])) for row in sound], damaged

    def stored_after(self, conn: Connection, seq: int, limit: int) -> VectorPage:
        """Return up to `limit` vectors after `seq`, in order."""
        newest = newest_seq(conn)
        if newest <= seq:
            return VectorPage((), seq, is_all=True)
        proofs = {row[0]: row[1:] for row in conn.execute(_SEQS_AFTER, (seq, self.space, limit)).fetchall()}
        sql = _PLACED.format(table=vec0.for_lookups(conn, self.table))
        rows = conn.execute(sql, (json.dumps(list(proofs)),)).fetchall() if proofs else []
        damaged = _damaged([(*row, proofs[row[0]][1]) for row in rows])
        vectors = tuple(StoredVector(proofs[row[0]][0], *row) for row in rows if row[0] not in damaged)
        is_all = len(proofs) < limit
        last = newest if is_all else max(number for number, _ in proofs.values())
        return VectorPage(vectors, last, is_all, damaged)

    def seqs(self, conn: Connection) -> Numbers:
        """Return the seq of every vector here."""
        rows = conn.execute("SELECT seq FROM vector_checksums WHERE space = ?", (self.space,))
        return np.fromiter((seq for (seq,) in rows), dtype=np.int64)

    def damaged(self, conn: Connection, chunks: Sequence[int]) -> frozenset[int]:
        """Return the chunks whose vector exists but is damaged, or in the wrong place."""
        return _damaged(self._proofs(conn, _STORED, chunks))

    def sound(self, conn: Connection, chunks: Sequence[int]) -> list[vec0.VectorRow]:
        """Return the rows of the chunks whose vector is undamaged and in the right place."""
        rows = self._proofs(conn, _STORED, chunks)
        damaged = _damaged(rows)
        return [tuple(row[:5]) for row in rows if row[0] not in damaged]

    def _proofs(self, conn: Connection, sql: str, chunks: Sequence[int]) -> list[Any]:
        if not chunks:
            return []
        statement = sql.format(table=vec0.for_lookups(conn, self.table))
        return conn.execute(statement, (json.dumps(list(chunks)), self.space)).fetchall()

    def seal(self, conn: Connection, dimension: int) -> None:
        """Add checksums to vectors stored before checksums existed, unless the table is damaged."""
        if not self.faults(conn, dimension):
            rows = conn.execute(_UNSEALED.format(table=vec0.quoted(self.table)), (self.space,)).fetchall()
            self._seal(conn, rows)

    def _seal(self, conn: Connection, rows: Iterable[vec0.VectorRow]) -> None:
        conn.executemany(
            # No update in place: a vector that is stored again needs a new seq, which readers follow.
            "INSERT OR REPLACE INTO vector_checksums (space, chunk, checksum) VALUES (?, ?, ?)",
            [(self.space, row[0], checksums.vector_checksum(*row[1:])) for row in rows],
        )

    def count(self, conn: Connection) -> int:
        """Return the number of vectors."""
        return vec0.count_vectors(conn, self.table)

    def is_sparse(self, conn: Connection) -> bool:
        """Return whether packed vectors would take less than two thirds of the blocks; reads none of them."""
        (namespaces,) = conn.execute(
            "SELECT COUNT(DISTINCT namespace) FROM entries WHERE live = 1"
        ).fetchone()
        packed = self.count(conn) / vec0.BLOCK_SIZE + namespaces
        return vec0.count_blocks(conn, self.table) > 1.5 * float(packed)

    def pack(self, conn: Connection, chunks: Sequence[int]) -> None:
        """Store the vectors of the chunks again, unchanged. Damaged ones stay where they are.

        vec0 puts a vector only into the newest block of its namespace, and removes a block with its last
        vector: once all vectors were stored again, all blocks but the newest are full.
        """
        if self.exists(conn):  # not retired in the meantime
            rows = self.sound(conn, chunks)
            vec0.delete_vectors(conn, self.table, [row[0] for row in rows])
            vec0.insert_vectors(conn, self.table, rows)

    def chunk_ids(self, conn: Connection, first: int = FIRST_ID, last: int = LAST_ID) -> list[int]:
        """Return every chunk from `first` to `last` that has a vector here."""
        return vec0.stored_ids(conn, self.table, first, last)

    def faults(self, conn: Connection, dimension: int) -> list[str]:
        """Return the faults of the table, or else of each vector in it; reads everything."""
        shape = vec0_shadow.shape_faults(conn, self.table, dimension)
        return shape or vec0_shadow.content_faults(conn, self.table, dimension)

    def strays(self, conn: Connection) -> int:
        """Count vectors whose namespace, collection or session differs from their entry's.

        Reads the whole table through vec0; only for one without `faults`.
        """
        row = conn.execute(_STRAYS.format(table=vec0.for_lookups(conn, self.table))).fetchone()
        return int(row[0])


def measured(
    vectors: Sequence[VerifiedVector], query: Vectors, damaged: frozenset[int] = frozenset()
) -> MeasuredChunks:
    """Return the distances of the vectors, without those that are not finite."""
    if not vectors:
        return MeasuredChunks({}, damaged)
    numbers = np.frombuffer(b"".join([each.vector for each in vectors]), np.float32).reshape(len(vectors), -1)
    with np.errstate(all="ignore"):
        cosines = numbers @ query / (np.linalg.norm(numbers, axis=1) * np.linalg.norm(query))
    distances = np.maximum(1 - cosines, 0)
    return MeasuredChunks(
        {
            each.chunk: NearestChunk(each.chunk, each.entry, distance, each.is_cue)
            for each, distance in zip(vectors, distances.tolist(), strict=True)
            if isfinite(distance)
        },
        damaged,
    )


def newest_seq(conn: Connection) -> int:
    """Return the highest seq ever assigned to a vector of any space, even if the vector is gone."""
    row = conn.execute("SELECT seq FROM sqlite_sequence WHERE name = 'vector_checksums'").fetchone()
    return 0 if row is None else int(row[0])


def _damaged(proofs: Sequence[Any]) -> frozenset[int]:
    return frozenset(row[0] for row in proofs if checksums.vector_checksum(*row[1:5]) != row[5])
