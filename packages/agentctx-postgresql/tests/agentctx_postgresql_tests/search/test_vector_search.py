"""Vector search with the index of a large namespace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agentctx.storage.records import Space
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql.search import vector_search
from agentctx_postgresql.vectors import nearest_index
from agentctx_testing.drafts import ALL, embed, keyless, save, serving_space, vector

ENTRIES = 60


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_index, "LARGE_NAMESPACE", ENTRIES - 10)
    monkeypatch.setattr(nearest_index, "CACHED_S", 0.0)
    monkeypatch.setattr(vector_search, "FEW_ENTRIES", 5)


async def filled(storage: PostgresqlStorage) -> Space:
    """Save vectors at growing angles to (1, 0), every tenth by agent `rare`, and one in another namespace."""
    space = await serving_space(storage)
    for number in range(ENTRIES):
        agent = "rare" if number % 10 == 9 else "usual"
        saved = await save(storage, keyless(f"text {number}", agent=agent))
        await embed(storage, saved, vector(np.cos(number / 40), np.sin(number / 40)))
    await embed(storage, await save(storage, keyless("elsewhere", namespace="it's other")), vector(1))
    return space


async def indexes(storage: PostgresqlStorage) -> list[str]:
    rows = await storage.db.read(
        lambda conn: conn.fetch("SELECT relname FROM pg_class WHERE relname LIKE '%near%' ORDER BY 1")
    )
    return [row[0] for row in rows]


async def test_only_a_large_namespace_gets_an_index_and_only_once(storage: PostgresqlStorage) -> None:
    space = await filled(storage)
    assert await nearest_index.build_one(storage.db)
    assert not await nearest_index.build_one(storage.db)
    assert await indexes(storage) == [nearest_index.name_of(space.id, "default")]


async def test_vectors_too_long_for_an_index_get_none(
    storage: PostgresqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest_index, "MAX_DIMENSIONS", len(vector(1)) - 1)
    await filled(storage)
    assert not await nearest_index.build_one(storage.db)
    assert await indexes(storage) == []


async def test_the_index_finds_what_an_exact_search_finds(storage: PostgresqlStorage) -> None:
    space = await filled(storage)
    asked = [
        ALL,
        replace(ALL, agent="usual"),
        replace(ALL, agent="rare"),
        replace(ALL, agent="nobody"),
        replace(ALL, namespace="it's other"),
    ]
    before = [await storage.search.by_vector(space.id, vector(1), wanted, 8) for wanted in asked]
    assert [len(hits) for hits in before] == [8, 8, 6, 0, 1]
    await nearest_index.build_one(storage.db)
    after = [await storage.search.by_vector(space.id, vector(1), wanted, 8) for wanted in asked]
    assert after == before


async def test_a_question_in_a_large_namespace_uses_its_index(
    storage: PostgresqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = await filled(storage)
    await nearest_index.build_one(storage.db)
    monkeypatch.setattr(vector_search, "_OF_NAMESPACE", "not SQL")
    assert len(await storage.search.by_vector(space.id, vector(1), ALL, 8)) == 8


async def test_an_unfinished_index_is_rebuilt(
    storage: PostgresqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = await filled(storage)
    await nearest_index.build_one(storage.db)
    name = nearest_index.name_of(space.id, "default")

    async def mark_invalid(conn: Connection) -> None:
        sql = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass($1)"
        await conn.execute(sql, name)

    await storage.db.write(mark_invalid)
    assert len(await storage.search.by_vector(space.id, vector(1), ALL, 8)) == 8
    assert await nearest_index.build_one(storage.db), "the invalid index is dropped"
    assert await indexes(storage) == []
    assert await nearest_index.build_one(storage.db), "and built again"
    monkeypatch.setattr(vector_search, "_OF_NAMESPACE", "not SQL")
    assert len(await storage.search.by_vector(space.id, vector(1), ALL, 8)) == 8
