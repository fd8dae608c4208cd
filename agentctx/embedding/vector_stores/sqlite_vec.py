"""A vector store in a SQLite file: records in an ordinary table, their vectors in a vec0 table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from agentctx.embedding.vector_stores.base import (
    CheckedVectorStore,
    Vector,
    VectorHit,
    VectorRecord,
    Where,
    metadata_json,
    unit_vector,
)
from agentctx.errors import InvalidInput
from agentctx.storage.file import vec0
from agentctx.storage.file.driver import Connection
from agentctx.storage.file.readers import Readers
from agentctx.storage.file.writer import Writer

DEFAULT_READERS: Final = 2

_VECTORS: Final = "vector_embeddings"
_SCHEMA: Final = (
    "CREATE TABLE vector_store (dimension INTEGER NOT NULL CHECK (dimension > 0)) STRICT",
    """
    CREATE TABLE vector_records (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        collection TEXT NOT NULL,
        chunk_id TEXT NOT NULL,
        doc_id TEXT NOT NULL,
        first INTEGER NOT NULL,
        past INTEGER NOT NULL,
        content TEXT NOT NULL,
        metadata TEXT NOT NULL CHECK (json_type(metadata) = 'object')
    ) STRICT
    """,
    "CREATE INDEX vector_records_by_chunk ON vector_records (collection, chunk_id)",
)
_FIND: Final = "SELECT id FROM vector_records WHERE collection = ? AND chunk_id = ?"
_INSERT: Final = """
INSERT INTO vector_records (collection, chunk_id, doc_id, first, past, content, metadata)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_RECORDS: Final = """
SELECT records.id, chunk_id, content, doc_id, first, past, metadata, collection
FROM json_each(?) AS wanted CROSS JOIN vector_records AS records ON records.id = wanted.value
"""
# Records that satisfy every wanted pair. Both sides are JSON, so equal values look equal, and comparing types
# distinguishes true from 1.
_MATCHING: Final = """
SELECT id FROM vector_records
WHERE (:collection IS NULL OR collection = :collection) AND NOT EXISTS (
    SELECT 1 FROM json_each(:wanted) AS wanted WHERE NOT EXISTS (
        SELECT 1 FROM json_each(vector_records.metadata) AS stored
        WHERE stored.key = wanted.key AND stored.atom IS wanted.atom AND (
            stored.type = wanted.type
            OR (stored.type IN ('integer', 'real') AND wanted.type IN ('integer', 'real'))
        )
    )
)
"""


class SqliteVecStore(CheckedVectorStore):
    """Vectors of one length, with content, positions and metadata; one store per database file.

    Create it with `await SqliteVecStore.open(path, dimension=…)` and close it with `close`.
    """

    name = "sqlite-vec"

    def __init__(self, writer: Writer, readers: Readers, *, dimension: int) -> None:
        self.dimension = self._length = dimension
        self._writer = writer
        self._readers = readers

    @classmethod
    async def open(cls, path: str | Path, *, dimension: int, readers: int = DEFAULT_READERS) -> Self:
        """Open or create the database, with connections of its own.

        Raises:
            InvalidInput: the database holds vectors of another length.
            DriverUnsuitable, StorageFailed: the database cannot be opened.
        """
        writer = await Writer.open(path)
        try:
            await writer.run(partial(_prepare, dimension=dimension))
            pool = await Readers.open(path, readers)
            writer.recover_with(pool)
        except BaseException:
            await writer.close()
            raise
        return cls(writer, pool, dimension=dimension)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        try:
            await self._readers.close()
        finally:
            await self._writer.close()

    async def upsert(self, records: Sequence[VectorRecord]) -> None:
        # Within one call, too, the last record of an id wins.
        newest = {(record.collection, record.chunk.id): record for record in self._checked(records)}
        with _storable_text():
            await self._writer.run(partial(_replace, records=newest))

    async def _append(self, records: Sequence[VectorRecord]) -> None:
        checked = self._checked(records)
        with _storable_text():
            await self._writer.run(partial(_append, records=checked))

    async def _nearest(self, query: Vector, k: int, collection: str | None, where: Where) -> list[VectorHit]:
        question = partial(_search, query=query.tobytes(), k=k, collection=collection, where=where)
        with _storable_text():
            return await self._readers.run(question)

    async def delete(self, collection: str, ids: Sequence[str]) -> None:
        keys = [(collection, chunk_id) for chunk_id in ids]
        with _storable_text():
            await self._writer.run(partial(_remove, keys=keys))

    async def clear(self, collection: str | None = None) -> None:
        if collection is None:
            await self._writer.run(partial(_remove_all, dimension=self._length))
            return
        with _storable_text():
            await self._writer.run(partial(_remove_collection, collection=collection))

    def _checked(self, records: Sequence[VectorRecord]) -> list[VectorRecord]:
        """Return the records with unit vectors of this store's length."""
        return [
            replace(record, embedding=unit_vector(record.embedding, self.dimension)) for record in records
        ]


@contextmanager
def _storable_text() -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidInput("A text contains a lone surrogate, which is not a character.") from error


def _prepare(connection: Connection, *, dimension: int) -> None:
    there = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'vector_store'").fetchone()
    if there is None:
        vec0.create_space_table(connection, _VECTORS, dimension)
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute("INSERT INTO vector_store (dimension) VALUES (?)", (dimension,))
        return
    (stored,) = connection.execute("SELECT dimension FROM vector_store").fetchone()
    if stored != dimension:
        raise InvalidInput(
            f"This database has vectors of length {stored}, not {dimension}.",
            hint="Use the model it was filled with, or another file.",
        )


def _replace(connection: Connection, *, records: Mapping[tuple[str, str], VectorRecord]) -> None:
    _remove(connection, keys=list(records))
    _append(connection, records=list(records.values()))


def _append(connection: Connection, *, records: Sequence[VectorRecord]) -> None:
    rows = []
    for record in records:
        chunk, metadata = record.chunk, metadata_json(record.chunk.metadata)
        span = (chunk.start, chunk.end)
        row = (record.collection, chunk.id, chunk.doc_id, *span, chunk.content, metadata)
        cursor = connection.execute(_INSERT, row)
        rows.append((int(cursor.lastrowid or 0), record.collection, "", "", record.embedding.tobytes()))
    vec0.insert_vectors(connection, _VECTORS, rows)


def _remove(connection: Connection, *, keys: Sequence[tuple[str, str]]) -> None:
    _remove_ids(connection, [row_id for key in keys for (row_id,) in connection.execute(_FIND, key)])


def _remove_collection(connection: Connection, *, collection: str) -> None:
    rows = connection.execute("SELECT id FROM vector_records WHERE collection = ?", (collection,))
    _remove_ids(connection, [row[0] for row in rows])


def _remove_ids(connection: Connection, ids: Sequence[int]) -> None:
    vec0.delete_vectors(connection, _VECTORS, ids)
    connection.executemany("DELETE FROM vector_records WHERE id = ?", ((row_id,) for row_id in ids))


def _remove_all(connection: Connection, *, dimension: int) -> None:
    connection.execute("DELETE FROM vector_records")
    # Deleting row by row would leave half-empty chunks behind.
    vec0.drop_space_table(connection, _VECTORS)
    vec0.create_space_table(connection, _VECTORS, dimension)


def _search(
    connection: Connection, *, query: bytes, k: int, collection: str | None, where: Where
) -> list[VectorHit]:
    ids: list[int] | None = None
    if where:
        conditions = json.dumps(dict(where), ensure_ascii=False)
        matching = connection.execute(_MATCHING, {"collection": collection, "wanted": conditions})
        ids = [row_id for (row_id,) in matching]
    ranked = vec0.nearest(connection, _VECTORS, query, k, namespace=collection, ids=ids)
    rows = connection.execute(_RECORDS, (json.dumps([row_id for row_id, _ in ranked]),))
    records = {row[0]: row for row in rows}
    return [_hit(records[row_id], distance) for row_id, distance in ranked]


def _hit(row: tuple[Any, ...], distance: float) -> VectorHit:
    (_, chunk_id, content, doc_id, start, end, metadata, collection) = row
    return VectorHit(
        chunk_id, content, doc_id, start, end, json.loads(metadata), collection=collection, distance=distance
    )
