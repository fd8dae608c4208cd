"""All SQL of sqlite-vec's vec0 tables. Each function takes the connection; the caller owns the transaction.

A table has `id`, the partition key `namespace`, the metadata columns `collection` and `session` (text, never
NULL) and a vector compared by cosine. Vectors are float32 blobs validated by the caller: sqlite-vec accepts a
NaN, and then its distance is NULL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from agentctx.errors import InvalidInput
from agentctx.storage.file.driver import FIRST_ID, LAST_ID, Connection, hardening

VectorRow: TypeAlias = tuple[int, str, str, str, bytes]
"""id, namespace, collection, session, vector."""

MAX_DIMENSION: Final = 8192
_MAX_NEAREST: Final = 4096
"""sqlite-vec's own limit."""
BLOCK_SIZE: Final = 256
"""Vectors per block, sqlite-vec's `chunk_size`. A partition of one row takes a whole block, and small blocks
are not slower to scan."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_BEYOND: Final = 3.0
"""Greater than any cosine distance. The comparison excludes rows whose distance is NULL."""

_CREATE: Final = """
CREATE VIRTUAL TABLE {table} USING vec0 (
    id INTEGER PRIMARY KEY,
    namespace TEXT PARTITION KEY,
    collection TEXT,
    session TEXT,
    embedding FLOAT[{dimension}] distance_metric=cosine,
    chunk_size={block_size}
)
"""
_DROP: Final = "DROP TABLE IF EXISTS {table}"
_INSERT: Final = "INSERT INTO {table} (id, namespace, collection, session, embedding) VALUES (?, ?, ?, ?, ?)"
_DELETE: Final = "DELETE FROM {table} WHERE id = ?"
_NEAREST: Final = "SELECT id, distance FROM {table} WHERE embedding MATCH ? AND k = ? AND distance < ?"
_STORED_IDS: Final = "SELECT rowid FROM {table} WHERE rowid BETWEEN ? AND ? ORDER BY rowid"
_COUNT: Final = "SELECT COUNT(*) FROM {table}"
_LOOKUP: Final = "SELECT 1 FROM {table} WHERE id = 0"


def create_space_table(connection: Connection, table: str, dimension: int) -> None:
    """Create a table for vectors of one length.

    Raises:
        InvalidInput: the table name is not plain, or the dimension is outside 1 to 8192.
    """
    if not 1 <= dimension <= MAX_DIMENSION:
        raise InvalidInput(f"Invalid vector length {dimension}. Use 1 to {MAX_DIMENSION}.")
    sql = _CREATE.format(table=quoted(table), dimension=int(dimension), block_size=BLOCK_SIZE)
    connection.execute(sql)


def drop_space_table(connection: Connection, table: str) -> None:
    """Drop the table with all its vectors, if it exists."""
    connection.execute(_DROP.format(table=quoted(table)))


def insert_vectors(connection: Connection, table: str, rows: Iterable[VectorRow]) -> None:
    """Insert vectors. An existing id is an IntegrityError: delete it first, because vec0 has no upsert."""
    connection.executemany(_INSERT.format(table=quoted(table)), rows)


def delete_vectors(connection: Connection, table: str, ids: Iterable[int]) -> None:
    """Delete vectors by id; unknown ids are ignored."""
    connection.executemany(_DELETE.format(table=quoted(table)), ((row_id,) for row_id in ids))


def nearest(
    connection: Connection,
    table: str,
    query: bytes,
    k: int,
    *,
    namespace: str | None,
    collections: Sequence[str] | None = None,
    session: str | None = None,
    ids: Sequence[int] | None = None,
) -> list[tuple[int, float]]:
    """Return ids and cosine distances of the `k` nearest (at most 4096), ascending, equal distances by id.

    Every filter narrows the search itself, so `k` are found if that many exist. `namespace` None means every
    namespace, `collections` None every collection; `session` selects its rows and rows without a session.
    """
    if k < 1 or collections == [] or ids == []:
        return []
    sql = _NEAREST.format(table=quoted(table))
    parameters: list[Any] = [query, min(k, _MAX_NEAREST), _BEYOND]
    if namespace is not None:
        sql += " AND namespace = ?"
        parameters.append(namespace)
    if collections is not None:
        sql += " AND collection IN (SELECT value FROM json_each(?))"
        parameters.append(json.dumps(list(collections)))
    if session is not None:
        sql += " AND session IN (?, '')"
        parameters.append(session)
    if ids is not None:
        sql += " AND id IN (SELECT value FROM json_each(?))"
        parameters.append(json.dumps(list(ids)))
    return _ranked(connection.execute(sql, parameters).fetchall())


def for_lookups(connection: Connection, table: str) -> str:
    """Return the quoted name for a statement of this transaction that reads vectors by id, or all of them.

    sqlite-vec 0.1.9 prepares its own statement for that at the first use after a change of the schema, and
    crashes the process if it is interrupted meanwhile. So it is used here first, without interruptions.
    """
    with hardening.uninterrupted(connection):
        connection.execute(_LOOKUP.format(table=quoted(table))).fetchone()
    return quoted(table)


def stored_ids(connection: Connection, table: str, first: int = FIRST_ID, last: int = LAST_ID) -> list[int]:
    """Return the ids of all vectors from `first` to `last`, ascending. Reads no vectors."""
    sql = _STORED_IDS.format(table=quoted(f"{table}_rowids"))
    return [row_id for (row_id,) in connection.execute(sql, (first, last))]


def count_vectors(connection: Connection, table: str) -> int:
    """Return the number of vectors. Reads neither vectors nor ids."""
    (count,) = connection.execute(_COUNT.format(table=quoted(f"{table}_rowids"))).fetchone()
    return int(count)


def count_blocks(connection: Connection, table: str) -> int:
    """Return the number of blocks; a block stays until its last vector is deleted."""
    (count,) = connection.execute(_COUNT.format(table=quoted(f"{table}_chunks"))).fetchone()
    return int(count)


def quoted(table: str) -> str:
    """Return the name as a quoted SQL identifier, since identifiers cannot be bound.

    Raises:
        InvalidInput: the name is anything but a lower-case word of a-z, 0-9 and _.
    """
    if _NAME.fullmatch(table) is None:
        raise InvalidInput("Invalid vector table name. Use a-z, 0-9 and _, starting with a letter.")
    return f'"{table}"'


def _ranked(rows: Iterable[tuple[int, float | None]]) -> list[tuple[int, float]]:
    known = [(row_id, max(distance, 0.0)) for row_id, distance in rows if distance is not None]
    return sorted(known, key=lambda row: (row[1], row[0]))
