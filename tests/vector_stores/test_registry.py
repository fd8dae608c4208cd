from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.errors import InvalidInput
from agentctx.vector_stores.chroma import ChromaVectorStore
from agentctx.vector_stores.memory import InMemoryVectorStore
from agentctx.vector_stores.registry import create_vector_store
from agentctx.vector_stores.sqlite_vec import SqliteVecStore
from tests.vector_stores.conformance import DIMENSION, NORTH, chunk, ids


async def test_creates_a_sqlite_vec_store(tmp_path: Path) -> None:
    store = await create_vector_store("sqlite-vec", dimension=DIMENSION, path=tmp_path / "a.db")
    assert isinstance(store, SqliteVecStore)
    assert store.name == "sqlite-vec"
    await store.add([chunk("a")], [NORTH])
    assert ids(await store.search(NORTH)) == ["a"]
    await store.close()


async def test_creates_a_memory_store() -> None:
    store = await create_vector_store("memory")
    assert isinstance(store, InMemoryVectorStore)
    assert store.name == "memory"


async def test_creates_a_chroma_store(tmp_path: Path) -> None:
    store = await create_vector_store("chroma", dimension=DIMENSION, path=tmp_path)
    assert isinstance(store, ChromaVectorStore)
    assert store.name == "chroma"
    await store.add([chunk("a")], [NORTH])
    assert ids(await store.search(NORTH)) == ["a"]
    await store.aclose()


async def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="chroma, memory, sqlite-vec"):
        await create_vector_store("no such store")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sqlite-vec", {"dimension": 3}),
        ("sqlite-vec", {"path": Path("a.db")}),
        ("memory", {"path": Path("a.db")}),
        ("chroma", {"dimension": 3}),
    ],
)
async def test_invalid_arguments_are_refused(name: str, arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        await create_vector_store(name, **arguments)  # type: ignore[arg-type]  # deliberately mixed
