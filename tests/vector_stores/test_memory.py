from __future__ import annotations

import subprocess
import sys

import pytest

from agentctx.errors import InvalidInput
from agentctx.vector_stores.memory import InMemoryVectorStore
from tests.vector_stores.conformance import DIMENSION, EAST, NORTH, VectorStoreConformance, chunk, ids, record


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


def test_works_without_external_dependencies() -> None:
    # A fresh interpreter has loaded nothing else of the tests.
    program = """
import asyncio, sys
from agentctx.chunking.base import PositionAwareChunk
from agentctx.vector_stores.memory import InMemoryVectorStore
async def use():
    store = InMemoryVectorStore()
    await store.add([PositionAwareChunk("a", "x", "d", 0, 1)], [[1.0, 0.0]])
    return [hit.id for hit in await store.search([1.0, 0.0])]
assert asyncio.run(use()) == ["a"]
foreign = {"chromadb", "sqlite3", "pysqlite3", "aiosqlite", "sqlite_vec", "pydantic", "fastapi"}
assert not foreign & set(sys.modules), foreign & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
