"""What is known in the file of vectors that are kept outside of it: one row for each, before and after it.

`stored` says that the present vector of the chunk has arrived. Without it the chunk has a job, or its vector
is on its way, or chunk or space are gone: then the row is a removal that is owed out there.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from agentctx.embedding_providers.base import Vectors
from agentctx.sqlite.driver import FIRST_ID, LAST_ID, Connection
from agentctx.storage.records import Job
from agentctx.vector_stores.outside import ChunkVector

_STORED: Final = """SELECT chunk FROM outside_vectors WHERE space = ? AND stored = 1
                  AND chunk IN (SELECT id FROM chunks)"""


@dataclass(frozen=True, slots=True)
class OutsideIndex:
    """The rows of one space; the same methods as `SpaceIndex`, on what is known instead of on vectors."""

    space: int

    def exists(self, conn: Connection) -> bool:  # noqa: ARG002 - what an index has
        """Always: the table belongs to the schema."""
        return True

    def create(self, conn: Connection, dimension: int) -> None:
        """Nothing to make here."""

    def drop(self, conn: Connection) -> None:
        """Forget that anything is stored. The rows stay until the vectors are removed."""
        conn.execute("UPDATE outside_vectors SET stored = 0 WHERE space = ?", (self.space,))

    def insert(self, conn: Connection, vectors: Iterable[ChunkVector]) -> None:
        """The vectors have arrived."""
        conn.executemany(
            """INSERT INTO outside_vectors (space, chunk, stored) VALUES (?, ?, 1)
               ON CONFLICT DO UPDATE SET stored = 1""",
            [(self.space, vector.chunk) for vector in vectors],
        )

    def delete(self, conn: Connection, chunks: Sequence[int]) -> None:
        """The vectors stored so far are no longer those of the chunks."""
        conn.executemany(
            "UPDATE outside_vectors SET stored = 0 WHERE space = ? AND chunk = ?",
            [(self.space, chunk) for chunk in chunks],
        )

    def count(self, conn: Connection) -> int:
        return int(conn.execute(f"SELECT COUNT(*) FROM ({_STORED})", (self.space,)).fetchone()[0])  # noqa: S608 - constant

    def chunk_ids(self, conn: Connection, first: int = FIRST_ID, last: int = LAST_ID) -> list[int]:
        """Every chunk from `first` to `last` whose present vector is stored."""
        rows = conn.execute(f"{_STORED} AND chunk BETWEEN ? AND ?", (self.space, first, last))
        return [row[0] for row in rows]

    def faults(self, conn: Connection, dimension: int) -> list[str]:  # noqa: ARG002 - what an index has
        """None here: the vectors themselves are looked at out there."""
        return []

    def strays(self, conn: Connection) -> int:  # noqa: ARG002 - what an index has
        """None here."""
        return 0


def announce(conn: Connection, jobs: Sequence[Job], vectors: Vectors) -> dict[int, list[ChunkVector]]:
    """Note that the vectors of those jobs that are still owed are on their way; returns them by space."""
    leaving: defaultdict[int, list[ChunkVector]] = defaultdict(list)
    for job, vector in zip(jobs, vectors, strict=True):
        if (place := _place_of_owed(conn, job)) is not None:
            leaving[job.space].append(ChunkVector(job.chunk, *place, vector))
    conn.executemany(
        "INSERT INTO outside_vectors (space, chunk, stored) VALUES (?, ?, 0) ON CONFLICT DO NOTHING",
        [(space, vector.chunk) for space, found in leaving.items() for vector in found],
    )
    return leaving


def removals(conn: Connection, limit: int) -> list[tuple[int, int]]:
    """Up to `limit` pairs of a living space and a chunk that is gone but may have a vector out there."""
    return conn.execute(
        """SELECT outside_vectors.space, outside_vectors.chunk FROM outside_vectors
           JOIN spaces ON spaces.id = outside_vectors.space AND spaces.state <> 'retired'
           WHERE outside_vectors.stored = 0
             AND NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.id = outside_vectors.chunk) LIMIT ?""",
        (limit,),
    ).fetchall()


def retired(conn: Connection) -> list[int]:
    """Retired spaces that may still have vectors out there."""
    rows = conn.execute(
        """SELECT DISTINCT outside_vectors.space FROM outside_vectors
           JOIN spaces ON spaces.id = outside_vectors.space AND spaces.state = 'retired'
           WHERE outside_vectors.stored = 0"""
    )
    return [row[0] for row in rows]


def forget(conn: Connection, pairs: Sequence[tuple[int, int]]) -> None:
    """The vectors of these pairs of space and chunk are not out there any more."""
    conn.executemany("DELETE FROM outside_vectors WHERE space = ? AND chunk = ?", pairs)


def forget_space(conn: Connection, space: int) -> None:
    """Nothing of the space is out there any more."""
    conn.execute("DELETE FROM outside_vectors WHERE space = ?", (space,))


def stored_among(conn: Connection, space: int, chunks: Sequence[int]) -> set[int]:
    """Those of the chunks that are there and whose present vector has arrived."""
    rows = conn.execute(
        f"{_STORED} AND chunk IN (SELECT value FROM json_each(?))",  # noqa: S608 - constant
        (space, json.dumps(list(chunks))),
    )
    return {row[0] for row in rows}


def places(conn: Connection) -> dict[int, tuple[str, str, str]]:
    """Namespace, collection and session of every chunk."""
    rows = conn.execute(
        """SELECT chunks.id, entries.namespace, entries.collection, entries.session
           FROM chunks JOIN entries ON entries.seq = chunks.entry"""
    )
    return {chunk: (namespace, collection, session) for chunk, namespace, collection, session in rows}


def expected(conn: Connection, space: int) -> set[int]:
    """Chunks that may have a vector out there: they are there, or its removal is owed."""
    rows = conn.execute(
        """SELECT chunk FROM outside_vectors WHERE space = ?
           AND (stored = 0 OR chunk IN (SELECT id FROM chunks))""",
        (space,),
    )
    return {row[0] for row in rows}


def _place_of_owed(conn: Connection, job: Job) -> tuple[str, str, str] | None:
    row = conn.execute(
        """SELECT entries.namespace, entries.collection, entries.session
           FROM jobs JOIN chunks ON chunks.id = jobs.chunk JOIN entries ON entries.seq = chunks.entry
           WHERE jobs.id = ? AND jobs.hash = ? AND jobs.space = ?""",
        (job.id, job.hash, job.space),
    ).fetchone()
    return None if row is None else (row[0], row[1], row[2])
