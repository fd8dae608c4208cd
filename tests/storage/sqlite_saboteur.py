"""Damages an SQLite database from outside, with plain SQL."""

# ruff: noqa: S608 - table names cannot be bound
from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from agentctx.storage.file.driver import Connection, open_connection

_JOB = """INSERT INTO jobs (chunk, space, hash, state, attempts, not_before, leased_until, created)
          SELECT ?, MIN(id), x'00', 'pending', 0, 0, 0, 0 FROM spaces"""


class SqliteSaboteur:
    """See `repair.Saboteur` of the suite."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def run(self, *statements: str) -> None:
        with self._opened() as conn:
            for statement in statements:
                conn.execute(statement)

    def remove_words(self, chunk: int) -> None:
        with self._opened() as conn:
            self._delete_words(conn, chunk)

    def garble_words(self, chunk: int) -> None:
        with self._opened() as conn:
            self._delete_words(conn, chunk)
            conn.execute(
                "INSERT INTO chunk_fts (rowid, text, labels, terms, scope) VALUES (?, 'zzz', '', '', '')",
                (chunk,),
            )

    def remove_job(self, chunk: int) -> None:
        self.run(f"DELETE FROM jobs WHERE chunk = {chunk}")

    def add_job(self, chunk: int) -> None:
        with self._opened() as conn:
            conn.execute(_JOB, (chunk,))

    def remove_vector(self, space: int, chunk: int) -> None:
        self.run(f"DELETE FROM vec_{space} WHERE id = {chunk}")

    def add_vector(self, space: int, chunk: int) -> None:
        with self._opened() as conn:
            (dimension,) = conn.execute("SELECT dimension FROM spaces WHERE id = ?", (space,)).fetchone()
            conn.execute(
                f"""INSERT INTO vec_{space} (id, namespace, collection, session, embedding)
                    VALUES (?, 'x', '', '', ?)""",
                (chunk, np.eye(1, dimension, dtype=np.float32).tobytes()),
            )

    def corrupt_vector(self, space: int, chunk: int) -> None:
        self._write_vector(space, chunk, np.nan)

    def zero_vector(self, space: int, chunk: int) -> None:
        self._write_vector(space, chunk, 0)

    def drop_vectors(self, space: int) -> None:
        self.run(f"DROP TABLE vec_{space}")

    def add_orphan_chunk(self, chunk: int) -> int:
        with self._opened() as conn:
            (dead,) = conn.execute(
                """SELECT dead.seq FROM chunks JOIN entries ON entries.seq = chunks.entry
                   JOIN entries dead ON dead.id = entries.id WHERE chunks.id = ? AND dead.live = 0""",
                (chunk,),
            ).fetchone()
            new = conn.execute(
                """INSERT INTO chunks (entry, ordinal, start_at, end_at, hash, terms, chunking)
                   VALUES (?, 0, 0, 7, x'00', '', 1)""",
                (dead,),
            ).lastrowid
            conn.execute(
                """INSERT INTO chunk_fts (rowid, text, labels, terms, scope)
                   SELECT id, text, labels, terms, scope FROM chunk_text WHERE id = ?""",
                (new,),
            )
            return int(new or 0)

    def remove_chunk(self, chunk: int) -> None:
        self.run(f"DELETE FROM chunks WHERE id = {chunk}")

    @contextmanager
    def _opened(self) -> Iterator[Connection]:
        with closing(open_connection(self._path)) as conn:
            conn.execute("PRAGMA foreign_keys = 0")
            yield conn

    def _delete_words(self, conn: Connection, chunk: int) -> None:
        conn.execute(
            """INSERT INTO chunk_fts (chunk_fts, rowid, text, labels, terms, scope)
               SELECT 'delete', id, text, labels, terms, scope FROM chunk_text WHERE id = ?""",
            (chunk,),
        )

    def _write_vector(self, space: int, chunk: int, value: float) -> None:
        with self._opened() as conn:
            place = conn.execute(
                f"""SELECT chunk_id, chunk_offset, dimension FROM vec_{space}_rowids, spaces
                    WHERE vec_{space}_rowids.rowid = ? AND spaces.id = ?""",
                (chunk, space),
            ).fetchone()
            if place is None:
                return
            block, slot, dimension = place
            (blob,) = conn.execute(
                f"SELECT vectors FROM vec_{space}_vector_chunks00 WHERE rowid = ?", (block,)
            ).fetchone()
            vectors = np.frombuffer(blob, dtype=np.float32).reshape(-1, dimension).copy()
            vectors[slot] = value
            conn.execute(
                f"UPDATE vec_{space}_vector_chunks00 SET vectors = ? WHERE rowid = ?",
                (vectors.tobytes(), block),
            )
