"""Proofs find violations, and report none in a healthy database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest

from agentctx.storage.file import vec0
from agentctx.storage.file.driver import Connection
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.records import SpaceState
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx_testing.drafts import ALL, FINGERPRINT, ManualClock, embed, keyless, save, serving_space, vector
from tests.doctor.damage import damaged

TEXTS = ("The harbour is closed.", "The harbour opens on Friday.", "Über 北京 1234 don't x_y the and")


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    storage = await SqliteStorage.open(tmp_path / DATABASE_NAME, clock=ManualClock())
    await serving_space(storage)
    for number, text in enumerate(TEXTS):
        await embed(storage, await save(storage, keyless(text)), vector(1, number))
    yield storage
    await storage.close()


async def test_a_healthy_database_has_no_violations(storage: SqliteStorage) -> None:
    assert await storage.proofs.count_violations() == 0
    await save(storage, keyless("not embedded yet"))
    assert await storage.proofs.count_violations() == 0
    assert (await storage.upkeep.census()).violations == 0


def delete_vectors(conn: Connection) -> None:
    conn.execute("DELETE FROM vec_1 WHERE id IN (SELECT id FROM chunks LIMIT 2)")


def add_orphan_vector(conn: Connection) -> None:
    vec0.insert_vectors(conn, "vec_1", [(4711, "default", "knowledge", "", vector(1).tobytes())])


def drop_vector_table(conn: Connection) -> None:
    conn.execute("DROP TABLE vec_1")


@pytest.mark.parametrize(
    ("how", "count"), [(delete_vectors, 2), (add_orphan_vector, 1), (drop_vector_table, 3)]
)
async def test_missing_and_orphaned_vectors_are_counted(
    storage: SqliteStorage, tmp_path: Path, how: Callable[[Connection], None], count: int
) -> None:
    damaged(tmp_path / DATABASE_NAME, how)
    assert await storage.proofs.count_violations() == count
    assert (await storage.upkeep.census()).violations >= count


async def test_vectors_are_counted_by_space(storage: SqliteStorage) -> None:
    (only,) = await storage.proofs.vectors_by_space()
    assert (only.space, only.state, only.enabled, only.vectors) == (1, SpaceState.ACTIVE, True, 3)
    assert only.fingerprint == FINGERPRINT


def retire_without_removing(conn: Connection) -> None:
    conn.execute("UPDATE spaces SET state = 'retired', enabled = 0 WHERE id = 1")


def add_unknown_vector_table(conn: Connection) -> None:
    vec0.create_space_table(conn, "vec_77", 4)
    vec0.insert_vectors(conn, "vec_77", [(1, "default", "knowledge", "", vector(1).tobytes())])


@pytest.mark.parametrize(
    ("how", "space", "state", "count"),
    [(retire_without_removing, 1, SpaceState.RETIRED, 3), (add_unknown_vector_table, 77, None, 1)],
)
async def test_unsearched_vectors_are_found_and_removed(
    storage: SqliteStorage,
    tmp_path: Path,
    how: Callable[[Connection], None],
    space: int,
    state: SpaceState | None,
    count: int,
) -> None:
    damaged(tmp_path / DATABASE_NAME, how)
    left = (await storage.proofs.vectors_by_space())[-1]
    assert (left.space, left.state, left.vectors) == (space, state, count)
    assert await storage.proofs.remove_leftover_vectors() == count
    assert await storage.proofs.remove_leftover_vectors() == 0
    assert all(
        each.state is SpaceState.ACTIVE for each in await storage.proofs.vectors_by_space() if each.vectors
    )


async def test_searched_vectors_are_not_removed(storage: SqliteStorage) -> None:
    assert await storage.proofs.remove_leftover_vectors() == 0
    assert (await storage.proofs.vectors_by_space())[0].vectors == 3


async def test_canaries_have_their_rarest_plain_word_and_their_vector(storage: SqliteStorage) -> None:
    canaries = await storage.proofs.canaries(10, max_chunks=5)
    assert [canary.word for canary in canaries] == ["closed", "opens", ""]
    for number, canary in enumerate(canaries):
        np.testing.assert_array_equal(canary.vectors[1], vector(1, number))


async def test_a_word_in_too_many_chunks_is_not_a_canary(storage: SqliteStorage) -> None:
    for number in range(3):
        await save(storage, keyless(f"harbour {number}"))
    assert {canary.word for canary in await storage.proofs.canaries(10, max_chunks=2)} == {
        *("closed", "opens", "")
    }


async def test_a_word_missing_from_the_index_counts_as_the_rarest(
    storage: SqliteStorage, tmp_path: Path
) -> None:
    damaged(
        tmp_path / DATABASE_NAME,
        lambda conn: conn.execute("INSERT INTO chunk_fts (chunk_fts) VALUES ('delete-all')"),
    )
    first = (await storage.proofs.canaries(10, max_chunks=5))[0]
    assert first.word == "harbour"
    assert (await storage.search.by_words(first.word, ALL, 5)).hits == []


async def test_the_number_of_canaries_is_limited(storage: SqliteStorage) -> None:
    assert len(await storage.proofs.canaries(2, max_chunks=5)) == 2
