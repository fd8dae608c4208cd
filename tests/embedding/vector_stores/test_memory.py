from __future__ import annotations

import pytest

from agentctx.embedding.vector_stores.memory import InMemoryVectorStore
from agentctx.errors import InvalidInput
from agentctx_testing.conformance.vector_stores import (
    DIMENSION,
    EAST,
    NORTH,
    VectorStoreConformance,
    chunk,
    ids,
    record,
)


class TestInMemoryVectorStore(VectorStoreConformance):
    @pytest.fixture
    def store(self) -> InMemoryVectorStore:
        return InMemoryVectorStore(dimension=DIMENSION)


async def test_the_first_record_sets_the_dimension() -> None:
    store = InMemoryVectorStore()
    assert await store.search([1.0, 2.0, 3.0]) == []
    await store.add([chunk("a")], [NORTH])
    assert store.dimension == DIMENSION
    with pytest.raises(InvalidInput):
        await store.add([chunk("b")], [[1.0, 2.0]])


async def test_a_refused_first_upsert_sets_no_dimension() -> None:
    store = InMemoryVectorStore()
    with pytest.raises(InvalidInput):
        await store.upsert([record("a", [1.0, 2.0]), record("b", [1.0, 2.0, 3.0])])
    assert store.dimension is None
    assert await store.search(NORTH) == []
    await store.upsert([record("a", EAST)])
    assert ids(await store.search(NORTH)) == ["a"]
