from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from agentctx.embedding.vector_stores.sqlite_vec import SqliteVecStore
from agentctx.errors import InvalidInput, StorageClosed, StorageFull
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.file.writer import Writer
from agentctx_testing.conformance.vector_stores import (
    DIMENSION,
    EAST,
    NORTH,
    VectorStoreConformance,
    ids,
    record,
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteVecStore]:
    store = await SqliteVecStore.open(tmp_path / "a.db", dimension=DIMENSION)
    yield store
    await store.close()


class TestSqliteVecStore(VectorStoreConformance):
    pass


def row_counts(path: Path) -> list[int]:
    """Return the number of rows in each table with content or vectors."""
    with closing(open_connection(path, readonly=True)) as connection:
        (counts,) = connection.execute(
            "SELECT (SELECT count(*) FROM vector_records), (SELECT count(*) FROM vector_embeddings),"
            " (SELECT count(*) FROM vector_embeddings_rowids)"
        )
        return list(counts)


async def test_records_survive_reopening(tmp_path: Path) -> None:
    store = await SqliteVecStore.open(tmp_path / "a.db", dimension=DIMENSION)
    await store.upsert([record("a", NORTH, tag="x"), record("b", EAST)])
    await store.close()
    store = await SqliteVecStore.open(tmp_path / "a.db", dimension=DIMENSION)
    assert ids(await store.search(NORTH, where={"tag": "x"})) == ["a"]
    await store.close()


async def test_the_dimension_is_fixed_at_creation(tmp_path: Path) -> None:
    await (await SqliteVecStore.open(tmp_path / "a.db", dimension=DIMENSION)).close()
    with pytest.raises(InvalidInput, match="length 8, not 384"):
        await SqliteVecStore.open(tmp_path / "a.db", dimension=384)
    with pytest.raises(InvalidInput):
        await SqliteVecStore.open(tmp_path / "b.db", dimension=0)


async def test_lives_in_a_shared_database_beside_other_tables(tmp_path: Path) -> None:
    writer = await Writer.open(tmp_path / "a.db")
    await writer.run(lambda c: c.execute("CREATE TABLE others (x)"))
    store = await SqliteVecStore.open(tmp_path / "a.db", dimension=DIMENSION)
    await store.upsert([record("a", NORTH)])
    await store.clear()
    await store.close()
    assert await writer.run(lambda c: c.execute("SELECT count(*) FROM others").fetchone()) == (0,)
    await writer.close()


async def test_calls_after_close_fail(tmp_path: Path) -> None:
    store = await SqliteVecStore.open(tmp_path / "a.db", dimension=DIMENSION)
    await store.close()
    await store.close()
    with pytest.raises(StorageClosed):
        await store.search(NORTH)
    with pytest.raises(StorageClosed):
        await store.upsert([record("a", NORTH)])


async def test_replaced_deleted_or_cleared_records_leave_no_rows(
    store: SqliteVecStore, tmp_path: Path
) -> None:
    await store.upsert([record("a", NORTH), record("b", NORTH), record("c", NORTH, collection="other")])
    await store.upsert([record("a", EAST)])
    assert row_counts(tmp_path / "a.db") == [3, 3, 3]
    await store.delete("default", ["a", "b"])
    assert row_counts(tmp_path / "a.db") == [1, 1, 1]
    await store.clear("other")
    assert row_counts(tmp_path / "a.db") == [0, 0, 0]
    await store.upsert([record("a", NORTH)])
    await store.clear()
    assert row_counts(tmp_path / "a.db") == [0, 0, 0]


async def test_a_failed_upsert_keeps_the_old_record(store: SqliteVecStore, tmp_path: Path) -> None:
    def limit_size(connection: Connection) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 16}")

    await store.upsert([record("a", NORTH, turn=1)])
    await store._writer.run(limit_size)
    with pytest.raises(StorageFull):
        await store.upsert([record("a", EAST, turn=2, big="x" * 1_000_000)])
    (hit,) = await store.search(NORTH)
    assert dict(hit.metadata) == {"turn": 1}
    assert hit.distance == pytest.approx(0, abs=1e-6)
