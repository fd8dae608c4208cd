"""The specification's embedders, vector stores and rerankers: a test for each requirement and scenario."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from agentctx.embedding.providers.base import Embedder
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.embedding.providers.openai_embedder import OpenAIEmbedder
from agentctx.embedding.rerankers.base import Reranker
from agentctx.embedding.rerankers.cohere import CohereReranker
from agentctx.embedding.vector_stores.base import VectorStore
from agentctx.embedding.vector_stores.chroma import ChromaVectorStore
from agentctx.embedding.vector_stores.memory import InMemoryVectorStore
from agentctx.errors import ConfigInvalid
from agentctx.text.chunking import Document, PositionAwareChunk, RecursiveCharacterChunker
from agentctx_testing.fake_provider.serving import FakeProviderServer, running

CHUNKS = [
    PositionAwareChunk("a", "the red apple", "doc.md", 10, 23),
    PositionAwareChunk("b", "a blue boat on the lake", "doc.md", 30, 53),
    PositionAwareChunk("c", "apple pie with red sugar", "doc.md", 60, 84),
    PositionAwareChunk("d", "nothing of the kind", "doc.md", 90, 109),
]


VECTORS = np.array([[1, 0], [0, 1], [1, 0.2], [-1, 0]], np.float32)


class ByLength:
    """A reranker that finds long passages relevant."""

    name = "by-length"

    async def rerank(
        self, query: str, chunks: Sequence[PositionAwareChunk], top_k: int | None = None
    ) -> list[PositionAwareChunk]:
        return sorted(chunks, key=lambda chunk: -len(chunk.content))[:top_k]


@pytest.fixture
async def server() -> AsyncIterator[FakeProviderServer]:
    async with running(dimension=8) as fake:
        yield fake


@pytest.fixture
async def cohere(server: FakeProviderServer) -> AsyncIterator[CohereReranker]:
    reranker = await CohereReranker.create(api_key="key", base_url=server.base_url("cohere"), max_retries=0)
    yield reranker
    await reranker.aclose()


def blocked(package: str, code: str) -> str:
    """Return the output of a program in which the package cannot be imported."""
    script = f"import sys; sys.modules[{package!r}] = None\n{code}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout


# Embedder interface


async def test_embedder_interface() -> None:
    embedder: Embedder = FakeProvider(8)
    assert isinstance(embedder.name, str)
    assert embedder.dimension == 8


async def test_embedder_interface__embed_multiple_texts() -> None:
    vectors = await FakeProvider(8).embed(["hello", "world"])
    assert [len(vector) for vector in vectors] == [8, 8]


async def test_embedder_interface__single_query_embedding_consistency() -> None:
    embedder = FakeProvider(8)
    assert np.array_equal(await embedder.embed_query("hello"), (await embedder.embed(["hello"]))[0])


# VectorStore interface


async def test_vector_store_interface() -> None:
    store: VectorStore = InMemoryVectorStore()
    assert isinstance(store.name, str)
    await store.add(CHUNKS[:1], [[1, 0]])
    assert len(await store.search([1, 0])) == 1


async def test_vector_store_interface__add_and_search_returns_relevant_chunks() -> None:
    store = InMemoryVectorStore()
    await store.add(CHUNKS, VECTORS)
    assert [hit.id for hit in await store.search([1, 0], k=3)] == ["a", "c", "b"]
    repeated = RecursiveCharacterChunker(11, 0).chunk_with_positions(Document("d", "same text. " * 3))
    await store.add(repeated, [[1, 0]] * 3)
    assert len(await store.search([1, 0], k=100)) == len(CHUNKS) + 3


async def test_vector_store_interface__clear_removes_all_data() -> None:
    store = InMemoryVectorStore()
    await store.add(CHUNKS, VECTORS)
    await store.clear()
    assert await store.search([1, 0]) == []


# Reranker interface


async def test_reranker_interface() -> None:
    reranker: Reranker = ByLength()
    assert reranker.name == "by-length"
    assert len(await reranker.rerank("q", CHUNKS)) == len(CHUNKS)


async def test_reranker_interface__rerank_reorders_chunks_by_relevance(cohere: CohereReranker) -> None:
    found = await cohere.rerank("red apple", CHUNKS, 3)
    assert len(found) == 3
    assert {chunk.id for chunk in found[:2]} == {"a", "c"}


async def test_reranker_interface__rerank_with_empty_input(
    cohere: CohereReranker, server: FakeProviderServer
) -> None:
    assert await cohere.rerank("q", [], 5) == []
    assert server.requests == []


# InMemoryVectorStore


async def test_in_memory_vector_store_implementation() -> None:
    store = InMemoryVectorStore()
    await store.add(CHUNKS[:2], [[3, 4], [4, 3]])
    (nearest, other) = await store.search([6, 8])
    assert nearest.distance == pytest.approx(0, abs=1e-6)
    assert other.distance == pytest.approx(1 - 24 / 25, abs=1e-6)


async def test_in_memory_vector_store_implementation__cosine_similarity_ranking() -> None:
    store = InMemoryVectorStore()
    await store.add(CHUNKS[:3], [[1, 0], [0, 1], [-1, 0]])
    assert (await store.search([0.1, 5], k=1))[0].id == "b"


def test_in_memory_vector_store_implementation__works_without_external_dependencies() -> None:
    printed = blocked(
        "chromadb",
        "from agentctx.embedding.vector_stores import memory; print(memory.InMemoryVectorStore().name)",
    )
    assert printed.strip() == InMemoryVectorStore().name


# OpenAIEmbedder


async def test_openai_embedder_implementation(server: FakeProviderServer) -> None:
    from openai import AsyncOpenAI

    async with AsyncOpenAI(api_key="key", base_url=server.base_url("openai"), max_retries=0) as client:
        embedder = OpenAIEmbedder(client, dimensions=8)
        assert "text-embedding-3-small" in embedder.name
        assert len(await embedder.embed(["one", "two"])) == 2


async def test_openai_embedder_implementation__create_with_async_factory(
    server: FakeProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url("openai"))
    embedder = await OpenAIEmbedder.create(dimensions=8)
    try:
        assert (await embedder.embed_query("hello")).shape == (8,)
    finally:
        await embedder.aclose()


async def test_openai_embedder_implementation__missing_openai_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigInvalid) as missing:
        await OpenAIEmbedder.create()
    assert "pip install" in f"{missing.value.message} {missing.value.hint}"


# ChromaVectorStore


async def test_chroma_vector_store_implementation(tmp_path: Path) -> None:
    store: VectorStore
    store = opened = await ChromaVectorStore.open(path=tmp_path / "chroma")
    try:
        await store.add(CHUNKS[:2], [[1, 0], [0, 1]])
        assert [hit.id for hit in await store.search([0, 1])] == ["b", "a"]
    finally:
        await opened.aclose()
    printed = blocked("chromadb", "import agentctx.embedding.vector_stores.chroma; print('imported')")
    assert printed.strip() == "imported"


async def test_chroma_vector_store_implementation__positions_preserved_through_storage(
    tmp_path: Path,
) -> None:
    store = await ChromaVectorStore.open(path=tmp_path / "chroma")
    try:
        await store.add([PositionAwareChunk("x", "text", "doc.md", 10, 50)], [[1, 0]])
        (hit,) = await store.search([1, 0])
        assert (hit.start, hit.end, hit.doc_id) == (10, 50, "doc.md")
    finally:
        await store.aclose()


# CohereReranker


def test_cohere_reranker_implementation() -> None:
    printed = blocked("cohere", "import agentctx.embedding.rerankers.cohere; print('imported')")
    assert printed.strip() == "imported"


async def test_cohere_reranker_implementation__rerank_with_cohere(cohere: CohereReranker) -> None:
    found = await cohere.rerank("red apple", CHUNKS, 3)
    assert [chunk.id for chunk in found][2] in {"b", "d"}
    assert {chunk.id for chunk in found[:2]} == {"a", "c"}
