from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from agentctx.errors import InvalidInput
from agentctx.storage.file.driver import Connection, Error, IntegrityError, OperationalError, open_connection
from agentctx.storage.file.vec0 import (
    VectorRow,
    count_vectors,
    create_space_table,
    delete_vectors,
    drop_space_table,
    insert_vectors,
    nearest,
    quoted,
    stored_ids,
)
from agentctx_testing.conformance.vector_stores import random_vectors


def blob(*numbers: float) -> bytes:
    return np.asarray(numbers, dtype=np.float32).tobytes()


NORTH, EAST, SOUTH = blob(1, 0), blob(0, 1), blob(-1, 0)
ROWS: list[VectorRow] = [
    (1, "ns", "knowledge", "", NORTH),
    (2, "ns", "knowledge", "s1", EAST),
    (3, "ns", "learning", "s2", SOUTH),
    (4, "ns", "reflection", "", EAST),
    (5, "other", "knowledge", "s1", NORTH),
]


def insert_in_transaction(connection: Connection, table: str, rows: list[VectorRow]) -> None:
    connection.execute("BEGIN")
    insert_vectors(connection, table, rows)
    connection.execute("COMMIT")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with closing(open_connection(tmp_path / "a.db")) as connection:
        create_space_table(connection, "vec_1", 2)
        insert_vectors(connection, "vec_1", ROWS)
        yield connection


class TestNearest:
    def test_ranks_by_distance_then_id(self, connection: Connection) -> None:
        assert nearest(connection, "vec_1", NORTH, 10, namespace="ns") == [(1, 0), (2, 1), (4, 1), (3, 2)]

    def test_namespaces_are_separate(self, connection: Connection) -> None:
        assert nearest(connection, "vec_1", NORTH, 10, namespace="other") == [(5, 0)]
        assert nearest(connection, "vec_1", NORTH, 10, namespace="") == []

    def test_without_a_namespace_all_are_searched(self, connection: Connection) -> None:
        assert [row for row, _ in nearest(connection, "vec_1", NORTH, 2, namespace=None)] == [1, 5]

    @pytest.mark.parametrize(
        ("collections", "found"),
        [
            (None, [1, 2, 4, 3]),
            (["knowledge"], [1, 2]),
            (["learning", "reflection", "unknown"], [4, 3]),
            (["unknown"], []),
            ([], []),
        ],
    )
    def test_filters_by_collection(
        self, connection: Connection, collections: list[str] | None, found: list[int]
    ) -> None:
        rows = nearest(connection, "vec_1", NORTH, 10, namespace="ns", collections=collections)
        assert [row for row, _ in rows] == found

    @pytest.mark.parametrize(
        ("session", "found"), [(None, [1, 2, 4, 3]), ("s1", [1, 2, 4]), ("s2", [1, 4, 3]), ("x", [1, 4])]
    )
    def test_a_session_sees_its_own_vectors_and_those_without_a_session(
        self, connection: Connection, session: str | None, found: list[int]
    ) -> None:
        rows = nearest(connection, "vec_1", NORTH, 10, namespace="ns", session=session)
        assert [row for row, _ in rows] == found

    @pytest.mark.parametrize(("ids", "found"), [([3, 2], [2, 3]), ([5], []), ([99], []), ([], [])])
    def test_filters_by_id(self, connection: Connection, ids: list[int], found: list[int]) -> None:
        rows = nearest(connection, "vec_1", NORTH, 10, namespace="ns", ids=ids)
        assert [row for row, _ in rows] == found

    def test_filters_apply_before_the_limit(self, connection: Connection) -> None:
        insert_in_transaction(
            connection, "vec_1", [(row, "ns", "big", "", NORTH) for row in range(100, 2_000)]
        )

        def nearest_one(**filters: object) -> list[int]:
            rows = nearest(connection, "vec_1", NORTH, 1, namespace="ns", **filters)  # type: ignore[arg-type]  # mixed
            return [row for row, _ in rows]

        assert nearest_one(collections=["learning"]) == [3]
        assert nearest_one(ids=[3]) == [3]
        assert nearest_one(collections=["learning"], session="s2", ids=[3]) == [3]

    @pytest.mark.parametrize("k", [0, -1])
    def test_k_below_one_finds_nothing(self, connection: Connection, k: int) -> None:
        assert nearest(connection, "vec_1", NORTH, k, namespace="ns") == []

    def test_k_is_capped(self, connection: Connection) -> None:
        insert_in_transaction(
            connection, "vec_1", [(row, "ns", "big", "", NORTH) for row in range(100, 4_300)]
        )
        assert len(nearest(connection, "vec_1", NORTH, 1_000_000, namespace="ns")) == 4_096

    def test_rows_without_a_distance_are_never_returned_and_do_not_count(
        self, connection: Connection
    ) -> None:
        bad = (blob(float("nan"), 0), blob(0, 0), blob(float("inf"), 0))
        rows = [(10 + number, "bad", "c", "", vector) for number, vector in enumerate((*bad, SOUTH, EAST))]
        insert_vectors(connection, "vec_1", rows)
        assert nearest(connection, "vec_1", NORTH, 2, namespace="bad") == [(14, 1), (13, 2)]
        assert nearest(connection, "vec_1", blob(float("nan"), 1), 4, namespace="ns") == []

    def test_agrees_with_numpy(self, tmp_path: Path) -> None:
        vectors, query = random_vectors(1_000, 16), random_vectors(1, 16, seed=9)[0]
        distances = 1 - (vectors @ query) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
        with closing(open_connection(tmp_path / "b.db")) as connection:
            create_space_table(connection, "vec_2", 16)
            rows = [(row, f"ns{row % 2}", "c", "", vector.tobytes()) for row, vector in enumerate(vectors)]
            insert_in_transaction(connection, "vec_2", rows)
            found = [row for row, _ in nearest(connection, "vec_2", query.tobytes(), 10, namespace="ns1")]
            every = dict(nearest(connection, "vec_2", query.tobytes(), 1_000, namespace=None))
        assert found == [int(row) for row in np.argsort(distances) if row % 2][:10]
        assert [every[row] for row in range(1_000)] == pytest.approx(distances.tolist(), abs=1e-5)


class TestRows:
    def test_stored_ids_agree_with_the_table_itself(self, connection: Connection) -> None:
        def from_table() -> list[int]:
            return [row for (row,) in connection.execute("SELECT id FROM vec_1 ORDER BY id")]

        assert stored_ids(connection, "vec_1") == from_table() == [1, 2, 3, 4, 5]
        assert count_vectors(connection, "vec_1") == 5
        delete_vectors(connection, "vec_1", [2, 5, 99])
        insert_in_transaction(
            connection, "vec_1", [(row, "x", "c", "", NORTH) for row in range(1_000, 600, -1)]
        )
        connection.execute("BEGIN")
        delete_vectors(connection, "vec_1", range(700, 990))
        connection.execute("COMMIT")
        assert stored_ids(connection, "vec_1") == from_table()
        assert len(from_table()) == 113

    def test_a_duplicate_id_is_an_error_until_the_first_is_deleted(self, connection: Connection) -> None:
        with pytest.raises((IntegrityError, OperationalError)):
            insert_vectors(connection, "vec_1", [ROWS[0]])
        delete_vectors(connection, "vec_1", [1])
        insert_vectors(connection, "vec_1", [(1, "ns", "knowledge", "", SOUTH)])
        assert dict(nearest(connection, "vec_1", SOUTH, 9, namespace="ns"))[1] == 0

    def test_a_vector_of_the_wrong_length_is_an_error(self, connection: Connection) -> None:
        with pytest.raises(Error):
            insert_vectors(connection, "vec_1", [(10, "ns", "c", "", blob(1, 2, 3))])

    def test_changes_are_part_of_the_callers_transaction(self, connection: Connection) -> None:
        connection.execute("BEGIN")
        delete_vectors(connection, "vec_1", [1])
        insert_vectors(connection, "vec_1", [(10, "ns", "c", "", NORTH)])
        connection.execute("ROLLBACK")
        assert stored_ids(connection, "vec_1") == [1, 2, 3, 4, 5]


class TestTables:
    def test_drop_leaves_nothing(self, connection: Connection) -> None:
        drop_space_table(connection, "vec_1")
        drop_space_table(connection, "vec_1")
        names = connection.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'vec\\_1%' ESCAPE '\\'")
        assert names.fetchall() == []

    @pytest.mark.parametrize("dimension", [0, -1, 8_193])
    def test_invalid_dimensions_are_refused(self, connection: Connection, dimension: int) -> None:
        with pytest.raises(InvalidInput):
            create_space_table(connection, "vec_2", dimension)

    @pytest.mark.parametrize(
        "name", ["", "1a", "a b", "a;b", 'a"b', "a'b", "main.a", "Vec", "é", "a\n", "a" * 64, "_a"]
    )
    def test_only_plain_names_reach_sql(self, name: str) -> None:
        with pytest.raises(InvalidInput):
            quoted(name)

    def test_a_plain_name_is_quoted(self) -> None:
        assert quoted("vec_12") == '"vec_12"'


def test_interrupting_a_new_connection_does_not_crash_the_process(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(open_connection(path)) as connection:
        create_space_table(connection, "vec_1", 2)
        insert_vectors(connection, "vec_1", ROWS)
    command = [sys.executable, "-m", "tests.storage.file.interrupted_lookups", str(path), "vec_1", "1500"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 0
