from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from agentctx.storage.file import vec0
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.sqlite.vectors.vec0_shadow import content_faults, drop, missing_tables, shape_faults
from agentctx_testing.conformance.vector_stores import random_vectors

DIMENSION = 8
COUNT = 600
"""Fills more than two blocks in the larger namespace."""

SHAPES = {
    "the table": "DROP TABLE vec_1",
    **{
        f"no {part}": f"DROP TABLE vec_1_{part}"
        for part in (
            "info",
            "chunks",
            "rowids",
            "vector_chunks00",
            "metadatachunks00",
            "metadatachunks01",
            "metadatatext00",
            "metadatatext01",
        )
    },
    "short vectors": "UPDATE vec_1_vector_chunks00 SET vectors = substr(vectors, 1, 100) WHERE rowid = 1",
    "vectors of text": "UPDATE vec_1_vector_chunks00 SET vectors = 'abc'",
    "no vectors of a block": "DELETE FROM vec_1_vector_chunks00 WHERE rowid = 2",
    "another number": "UPDATE vec_1_vector_chunks00 SET rowid = 77 WHERE rowid = 2",
    "no bits": "UPDATE vec_1_chunks SET validity = x''",
    "short ids": "UPDATE vec_1_chunks SET rowids = substr(rowids, 9)",
    "another size": "UPDATE vec_1_chunks SET size = 1000000",
    "no namespace": "UPDATE vec_1_chunks SET partition00 = NULL WHERE chunk_id = 1",
    "no block": "DELETE FROM vec_1_chunks WHERE chunk_id = 1",
    "a slot beyond the block": "UPDATE vec_1_rowids SET chunk_offset = 100000 WHERE rowid = 3",
    "a slot before the block": "UPDATE vec_1_rowids SET chunk_offset = -1 WHERE rowid = 3",
    "no slot": "UPDATE vec_1_rowids SET chunk_offset = NULL WHERE rowid = 3",
    "an unknown block": "UPDATE vec_1_rowids SET chunk_id = 77 WHERE rowid = 3",
    "short collections": "UPDATE vec_1_metadatachunks00 SET data = x''",
    "no sessions": "DELETE FROM vec_1_metadatachunks01",
}
SPOILED = "UPDATE vec_1_vector_chunks00 SET vectors = patched(vectors, 0, '{}') WHERE rowid = 1"
CONTENTS = {
    "a bit cleared": "UPDATE vec_1_chunks SET validity = patched(validity, 0, 'fe') WHERE chunk_id = 1",
    "a bit too many": "UPDATE vec_1_chunks SET validity = patched(validity, 31, 'ff') WHERE chunk_id = 2",
    "another id": "UPDATE vec_1_chunks SET rowids = patched(rowids, 0, '0102') WHERE chunk_id = 1",
    "an id not listed": "DELETE FROM vec_1_rowids WHERE rowid = 5",
    "a stranger in a slot": "INSERT INTO vec_1_rowids (rowid, chunk_id, chunk_offset) VALUES (5000, 1, 0)",
    "two ids in a slot": "UPDATE vec_1_rowids SET chunk_offset = 1 WHERE rowid = 1",
    "zeros": "UPDATE vec_1_vector_chunks00 SET vectors = zeroblob(length(vectors)) WHERE rowid = 1",
    "not a number": SPOILED.format("0000c07f"),
    "infinite": SPOILED.format("0000807f"),
    "huge": SPOILED.format("ffff7f7f"),
}


def patched(blob: bytes, at: int, digits: str) -> bytes:
    """Return the blob with the bytes at `at` replaced."""
    patch = bytes.fromhex(digits)
    return blob[:at] + patch + blob[at + len(patch) :]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with closing(open_connection(tmp_path / "a.db")) as connection:
        vec0.create_space_table(connection, "vec_1", DIMENSION)
        connection.create_function("patched", 3, patched)
        vectors = random_vectors(COUNT, DIMENSION)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        connection.execute("BEGIN")
        vec0.insert_vectors(
            connection,
            "vec_1",
            [
                (number, "large" if number % 10 else "small", "knowledge", "", vectors[number - 1].tobytes())
                for number in range(1, COUNT + 1)
            ],
        )
        vec0.delete_vectors(connection, "vec_1", range(7, COUNT, 13))
        connection.execute("COMMIT")
        yield connection


def faults(connection: Connection) -> list[str]:
    return shape_faults(connection, "vec_1", DIMENSION) or content_faults(connection, "vec_1", DIMENSION)


def tables(connection: Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'vec\\_1%' ESCAPE '\\'")
    return [name for (name,) in rows]


def test_a_used_table_has_no_faults(connection: Connection) -> None:
    assert faults(connection) == []
    connection.execute("BEGIN")
    vec0.delete_vectors(connection, "vec_1", range(1, COUNT + 1))
    connection.execute("COMMIT")
    assert faults(connection) == []


def test_a_fresh_table_has_no_faults(connection: Connection) -> None:
    vec0.create_space_table(connection, "vec_2", DIMENSION)
    assert shape_faults(connection, "vec_2", DIMENSION) == []
    assert content_faults(connection, "vec_2", DIMENSION) == []


@pytest.mark.parametrize("damage", SHAPES.values(), ids=SHAPES.keys())
def test_damage_that_could_crash_vec0_is_found_without_it(connection: Connection, damage: str) -> None:
    connection.execute(damage)
    assert shape_faults(connection, "vec_1", DIMENSION) != []


@pytest.mark.parametrize("damage", CONTENTS.values(), ids=CONTENTS.keys())
def test_damage_that_would_give_wrong_results_is_found(connection: Connection, damage: str) -> None:
    connection.execute(damage)
    assert shape_faults(connection, "vec_1", DIMENSION) == []
    assert content_faults(connection, "vec_1", DIMENSION) != []


def test_the_number_of_invalid_vectors_is_reported(connection: Connection) -> None:
    connection.execute(CONTENTS["zeros"])
    (used,) = connection.execute("SELECT COUNT(*) FROM vec_1_rowids WHERE chunk_id = 1").fetchone()
    assert content_faults(connection, "vec_1", DIMENSION) == [f"vectors not of length 1: {used}"]


def test_a_wrong_dimension_is_found(connection: Connection) -> None:
    assert shape_faults(connection, "vec_1", DIMENSION * 2) == ["it was not created for vectors of length 16"]


def test_missing_tables_are_named(connection: Connection) -> None:
    connection.execute("DROP TABLE vec_1_rowids")
    assert missing_tables(connection, "vec_1") == ["vec_1_rowids"]
    assert shape_faults(connection, "vec_1", DIMENSION) == ["vec_1_rowids is missing"]


@pytest.mark.parametrize("damage", ["SELECT 1", *SHAPES.values()], ids=["nothing", *SHAPES.keys()])
def test_a_damaged_table_can_be_dropped_and_created_again(connection: Connection, damage: str) -> None:
    connection.execute(damage)
    connection.execute("BEGIN")
    drop(connection, "vec_1")
    assert tables(connection) == []
    drop(connection, "vec_1")
    vec0.create_space_table(connection, "vec_1", DIMENSION)
    connection.execute("COMMIT")
    assert faults(connection) == []


def test_the_remains_of_a_table_are_dropped(connection: Connection) -> None:
    connection.execute("PRAGMA writable_schema = 1")
    connection.execute("DELETE FROM sqlite_schema WHERE name = 'vec_1'")
    connection.execute("PRAGMA writable_schema = RESET")
    assert len(tables(connection)) > 5
    drop(connection, "vec_1")
    assert tables(connection) == []
