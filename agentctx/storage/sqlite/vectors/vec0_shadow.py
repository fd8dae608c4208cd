"""The shadow tables of vec0: checks their consistency, and drops incomplete ones.

vec0 trusts them, and crashes the process if one is missing. So they are first read as plain tables. Vectors
are in blocks of equal size, each of one namespace: a bit for each used slot, the ids of the slots, their
vectors, and 16 bytes per slot for each metadata column. Another table maps an id to its slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from agentctx.storage.file.driver import Connection, hardening
from agentctx.storage.file.vec0 import BLOCK_SIZE, quoted

Places: TypeAlias = npt.NDArray[np.int64]
"""Rows of block, slot, id; ascending."""

_PARTS: Final = (
    "info",
    "chunks",
    "rowids",
    "vector_chunks00",
    "metadatachunks00",
    "metadatachunks01",
    "metadatatext00",
    "metadatatext01",
)
_FLOAT_BYTES: Final = 4
_ID_BYTES: Final = 8
_METADATA_BYTES: Final = 16
_LENGTH_TOLERANCE: Final = 0.01
"""Vectors have the length 1 up to rounding; a significant changed bit is far outside."""

_BAD_BLOCKS: Final = """
SELECT COUNT(*) FROM {blocks}
WHERE size <> :size OR typeof(partition00) <> 'text'
   OR typeof(validity) <> 'blob' OR length(validity) * 8 <> :size
   OR typeof(rowids) <> 'blob' OR length(rowids) <> :size * :bytes
"""
# vec0 opens a blob by its row number and deletes it by the column of that name, so both must agree.
_BAD_PARTS: Final = """
SELECT COUNT(*) FROM {blocks} AS block LEFT JOIN {part} AS part ON part._rowid_ = block.chunk_id
WHERE part."rowid" IS NOT block.chunk_id
   OR typeof(part.{column}) <> 'blob' OR length(part.{column}) <> :size * :bytes
"""
_BAD_PLACES: Final = """
SELECT COUNT(*) FROM {places} AS place LEFT JOIN {blocks} AS block ON block.chunk_id = place.chunk_id
WHERE block.chunk_id IS NULL OR typeof(place.chunk_offset) <> 'integer'
   OR place.chunk_offset NOT BETWEEN 0 AND :size - 1
"""
_BLOCKS: Final = """
SELECT block.chunk_id, block.validity, block.rowids, part.vectors
FROM {blocks} AS block JOIN {vectors} AS part ON part._rowid_ = block.chunk_id
"""
_PLACES: Final = "SELECT chunk_id, chunk_offset, rowid FROM {places} ORDER BY chunk_id, chunk_offset"


@dataclass(frozen=True, slots=True)
class _Block:
    """A block: `used` and `ids` have a value per slot, `vectors` is `(BLOCK_SIZE, dimension)`."""

    number: int
    used: npt.NDArray[np.bool_]
    ids: npt.NDArray[np.int64]
    vectors: npt.NDArray[np.float32]


def missing_tables(connection: Connection, table: str) -> list[str]:
    """Return the missing tables, including the virtual one."""
    names = [table, *(f"{table}_{part}" for part in _PARTS)]
    present = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return [name for name in names if name not in present]


def shape_faults(connection: Connection, table: str, dimension: int) -> list[str]:
    """Return faults that would make vec0 fail or crash: missing tables, another dimension, wrong sizes.

    Reads no vectors.
    """
    if missing := missing_tables(connection, table):
        return [f"{name} is missing" for name in missing]
    (sql,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    if f"FLOAT[{dimension}]" not in sql:
        return [f"it was not created for vectors of length {dimension}"]
    faults = [
        ("blocks with damaged ids", _count(connection, table, _BAD_BLOCKS, _ID_BYTES)),
        *(
            (f"blocks with damaged {what}", _bad_parts(connection, table, part, column, size))
            for what, part, column, size in (
                ("vectors", "vector_chunks00", "vectors", dimension * _FLOAT_BYTES),
                ("collections", "metadatachunks00", "data", _METADATA_BYTES),
                ("sessions", "metadatachunks01", "data", _METADATA_BYTES),
            )
        ),
        ("vectors without a slot", _count(connection, table, _BAD_PLACES)),
    ]
    return [f"{what}: {count}" for what, count in faults if count]


def content_faults(connection: Connection, table: str, dimension: int) -> list[str]:
    """Return faults that would give wrong answers: inconsistent slots, vectors not of length 1. Reads all.

    Only for a table without `shape_faults`.
    """
    places = np.array(_rows(connection, table, _PLACES), dtype=np.int64).reshape(-1, 3)
    disagreeing = spoiled = left = 0
    for block in _blocks(connection, table, dimension):
        disagreeing += _disagreeing_slots(block, places)
        spoiled += int(np.count_nonzero(~_has_unit_length(block.vectors[block.used])))
        left += int(np.count_nonzero(block.vectors[~block.used].view(np.uint32).any(axis=1)))
    faults = [
        ("slots that disagree with the list of ids", disagreeing),
        ("vectors not of length 1", spoiled),
        ("unused slots that are not empty", left),
    ]
    return [f"{what}: {count}" for what, count in faults if count]


def drop(connection: Connection, table: str) -> None:
    """Drop the table and all its parts, whichever of them exist."""
    missing = missing_tables(connection, table)
    with hardening.without_defensive(connection):
        if table not in missing:
            # vec0 drops nothing if it cannot drop everything.
            for name in missing:
                connection.execute(f"CREATE TABLE {quoted(name)} (id)")
            connection.execute(f"DROP TABLE {quoted(table)}")
        for part in _PARTS:
            connection.execute(f"DROP TABLE IF EXISTS {quoted(f'{table}_{part}')}")


def _disagreeing_slots(block: _Block, places: Places) -> int:
    first, past = np.searchsorted(places[:, 0], [block.number, block.number + 1])
    slots, ids = places[first:past, 1], places[first:past, 2]
    stored = np.flatnonzero(block.used)
    if np.array_equal(slots, stored):
        return int(np.count_nonzero(block.ids[stored] != ids))
    return max(1, len(np.setxor1d(slots, stored)))


def _has_unit_length(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    # Damaged numbers may be of any size; a NaN compares as False.
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
        return np.asarray(np.abs(lengths - 1) < _LENGTH_TOLERANCE)


def _blocks(connection: Connection, table: str, dimension: int) -> Iterator[_Block]:
    sql = _BLOCKS.format(blocks=quoted(f"{table}_chunks"), vectors=quoted(f"{table}_vector_chunks00"))
    for number, validity, ids, vectors in connection.execute(sql):
        yield _Block(
            number,
            np.unpackbits(np.frombuffer(validity, dtype=np.uint8), bitorder="little").astype(np.bool_),
            np.frombuffer(ids, dtype="<i8"),
            np.frombuffer(vectors, dtype="<f4").reshape(BLOCK_SIZE, dimension),
        )


def _bad_parts(connection: Connection, table: str, part: str, column: str, size: int) -> int:
    sql = _BAD_PARTS.format(blocks="{blocks}", part=quoted(f"{table}_{part}"), column=column)
    return _count(connection, table, sql, size)


def _count(connection: Connection, table: str, sql: str, bytes_per_slot: int = 0) -> int:
    (row,) = _rows(connection, table, sql, {"size": BLOCK_SIZE, "bytes": bytes_per_slot})
    return row[0]


def _rows(
    connection: Connection, table: str, sql: str, parameters: dict[str, int] | None = None
) -> list[tuple[int, ...]]:
    named = sql.format(blocks=quoted(f"{table}_chunks"), places=quoted(f"{table}_rowids"))
    return connection.execute(named, parameters or {}).fetchall()
