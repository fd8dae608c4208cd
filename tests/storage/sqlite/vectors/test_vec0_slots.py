from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.storage.file import vec0
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.file.vec0 import BLOCK_SIZE
from agentctx.storage.proofs import SlotCount
from agentctx.storage.sqlite.vectors import vec0_shadow, vec0_slots
from agentctx.storage.sqlite.vectors.vec0_slots import SlotBlock, blocks, count_slots, sparsest
from agentctx.storage.vectors import Vectors
from agentctx_testing.conformance.vector_stores import random_vectors

DIMENSION = 8
COUNT = 1_500

groups = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, BLOCK_SIZE)), max_size=12)


def numbered(used: Sequence[tuple[str, int]]) -> list[SlotBlock]:
    return [SlotBlock(number, namespace, count) for number, (namespace, count) in enumerate(used, start=1)]


def after_moving(found: Sequence[SlotBlock], block: SlotBlock) -> list[SlotBlock]:
    """Return the blocks after the vectors of one are deleted and inserted again."""
    left = [each for each in found if each != block]
    newest = max((each for each in left if each.namespace == block.namespace), key=lambda each: each.number)
    moved = min(block.used, BLOCK_SIZE - newest.used)
    left[left.index(newest)] = SlotBlock(newest.number, newest.namespace, newest.used + moved)
    if over := block.used - moved:
        left.append(SlotBlock(max(each.number for each in found) + 1, block.namespace, over))
    return left


@given(groups)
def test_every_slot_is_counted_once(used: list[tuple[str, int]]) -> None:
    count = count_slots(numbered(used))
    assert count.used == sum(number for _, number in used)
    assert count.used + count.dead + count.spare == len(used) * BLOCK_SIZE
    assert 0 <= count.spare < BLOCK_SIZE * max(1, len({namespace for namespace, _ in used}))


@given(groups)
def test_moving_the_sparsest_blocks_ends_without_dead_slots(used: list[tuple[str, int]]) -> None:
    found = numbered(used)
    steps = 0
    while block := sparsest(found):
        found = after_moving(found, block)
        steps += 1
        assert steps <= 3 * len(used)
    assert count_slots(found).dead == 0
    assert count_slots(found).used == count_slots(numbered(used)).used


def test_an_empty_table_has_no_dead_slots() -> None:
    assert count_slots([]) == SlotCount()
    assert SlotCount().dead_slot_ratio == 0
    assert sparsest([]) is None


def test_an_empty_block_is_never_moved() -> None:
    assert sparsest([SlotBlock(1, "a", 0), SlotBlock(2, "a", 9), SlotBlock(3, "a", 1)]) == SlotBlock(
        2, "a", 9
    )
    assert sparsest([SlotBlock(1, "a", 0), SlotBlock(2, "a", 9)]) is None


def test_a_small_namespace_has_spare_slots_but_no_dead_ones() -> None:
    assert count_slots([SlotBlock(1, "a", 1), SlotBlock(2, "b", 2)]) == SlotCount(3, 0, 2 * BLOCK_SIZE - 3)
    assert sparsest([SlotBlock(1, "a", 1), SlotBlock(2, "b", 2)]) is None


@pytest.fixture
def vectors() -> Vectors:
    made = random_vectors(COUNT, DIMENSION)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made


@pytest.fixture
def connection(tmp_path: Path, vectors: Vectors) -> Iterator[Connection]:
    """A table in two namespaces from which nine of ten vectors were deleted."""
    with closing(open_connection(tmp_path / "a.db")) as connection:
        vec0.create_space_table(connection, "vec_1", DIMENSION)
        connection.execute("BEGIN")
        vec0.insert_vectors(connection, "vec_1", rows(vectors, range(COUNT)))
        vec0.delete_vectors(connection, "vec_1", [number for number in range(COUNT) if number % 10])
        connection.execute("COMMIT")
        yield connection


def rows(vectors: Vectors, numbers: Sequence[int]) -> list[vec0.VectorRow]:
    return [
        (
            number,
            "large" if number % 3 else "small",
            "knowledge" if number % 20 else "a-collection-with-a-long-name",
            "" if number % 40 else f"a-session-with-a-long-name-{number}",
            vectors[number].tobytes(),
        )
        for number in numbers
    ]


def stored_rows(connection: Connection) -> list[tuple[int, str, str, str, bytes]]:
    found = connection.execute("SELECT id, namespace, collection, session, embedding FROM vec_1 ORDER BY id")
    return [tuple(row) for row in found]


def search_results(connection: Connection, vectors: Vectors) -> list[list[tuple[int, float]]]:
    return [
        vec0.nearest(connection, "vec_1", query.tobytes(), 7, namespace=namespace, session=session)
        for query in vectors[:40]
        for namespace in ("large", "small")
        for session in (None, "a-session-with-a-long-name-40")
    ]


def pack(connection: Connection, limit: int) -> int:
    steps = 0
    while block := sparsest(blocks(connection, "vec_1")):
        connection.execute("BEGIN")
        assert 0 < vec0_slots.move(connection, "vec_1", block.number, limit) <= limit
        connection.execute("COMMIT")
        steps += 1
    return steps


@pytest.mark.parametrize("limit", [10, BLOCK_SIZE])
def test_packing_changes_no_vector_and_no_search_result(
    connection: Connection, vectors: Vectors, limit: int
) -> None:
    before, found = stored_rows(connection), search_results(connection, vectors)
    assert count_slots(blocks(connection, "vec_1")).dead_slot_ratio > 0.5
    assert pack(connection, limit) > 1
    assert stored_rows(connection) == before
    assert search_results(connection, vectors) == found
    assert sorted(block.used for block in blocks(connection, "vec_1")) == [50, 100]


def test_packed_blocks_leave_nothing_behind(connection: Connection) -> None:
    pack(connection, 50)
    kept = [block.number for block in blocks(connection, "vec_1")]
    for part in ("vector_chunks00", "metadatachunks00", "metadatachunks01"):
        numbers = connection.execute(f"SELECT rowid FROM vec_1_{part}")  # noqa: S608 - constants
        assert [number for (number,) in numbers] == kept, part
    for part, column in (("metadatatext00", "collection"), ("metadatatext01", "session")):
        (texts,) = connection.execute(f"SELECT COUNT(*) FROM vec_1_{part}").fetchone()  # noqa: S608 - constants
        long = [
            row for row in stored_rows(connection) if len(str(row[2 if column == "collection" else 3])) > 12
        ]
        assert texts == len(long), part
    assert vec0_shadow.shape_faults(connection, "vec_1", DIMENSION) == []
    assert vec0_shadow.content_faults(connection, "vec_1", DIMENSION) == []
    (sound,) = connection.execute("PRAGMA integrity_check").fetchone()
    assert sound == "ok"


def test_packing_frees_pages(connection: Connection) -> None:
    pack(connection, BLOCK_SIZE)
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    assert free > 4 * BLOCK_SIZE * DIMENSION * 4 // 4096


def test_moving_an_unknown_block_does_nothing(connection: Connection) -> None:
    connection.execute("BEGIN")
    assert vec0_slots.move(connection, "vec_1", 4711, 10) == 0
    connection.execute("COMMIT")
