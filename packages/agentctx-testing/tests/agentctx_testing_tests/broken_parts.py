"""Parts that each break one promise. `test_conformance.py` runs the suites on them: each must fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from agentctx.embedding.providers.fake import FakeProvider
from agentctx.embedding.vector_stores.memory import InMemoryVectorStore
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.vectors import Vectors
from agentctx.text.chunking.base import Document, PositionAwareChunk
from agentctx.text.chunking.span_chunker import RecursiveCharacterChunker
from agentctx_testing.conformance.chunkers import ChunkerConformance
from agentctx_testing.conformance.embedding_providers import Make, ProviderConformance
from agentctx_testing.conformance.rerankers import RerankerConformance
from agentctx_testing.conformance.storage import StorageConformance
from agentctx_testing.conformance.vector_stores import DIMENSION, VectorStoreConformance
from agentctx_testing.drafts import ManualClock


class NeverDeletes(InMemoryVectorStore):
    async def delete(self, collection: str, ids: Sequence[str]) -> None:
        pass


class TestStore(VectorStoreConformance):
    @pytest.fixture
    def store(self) -> InMemoryVectorStore:
        return NeverDeletes(dimension=DIMENSION)


class UnorderedProvider(FakeProvider):
    async def embed(self, texts: Sequence[str]) -> Vectors:
        return np.ascontiguousarray((await super().embed(texts))[::-1])


class TestProvider(ProviderConformance):
    @pytest.fixture
    def make(self) -> Make:
        return UnorderedProvider


class LosesTheEnd:
    name = "loses-the-end"

    def chunk_with_positions(self, document: Document) -> list[PositionAwareChunk]:
        return RecursiveCharacterChunker(10, 0).chunk_with_positions(document)[:-1]


class TestChunker(ChunkerConformance):
    @pytest.fixture
    def chunker(self) -> LosesTheEnd:
        return LosesTheEnd()


class UnrankedReranker:
    name = "as-given"

    async def rerank(
        self, query: str, chunks: Sequence[PositionAwareChunk], top_k: int | None = None
    ) -> list[PositionAwareChunk]:
        return list(chunks)[:top_k]


class TestReranker(RerankerConformance):
    @pytest.fixture
    def reranker(self) -> UnrankedReranker:
        return UnrankedReranker()


class TestEngine(StorageConformance):
    """Its engine reads the time of another clock."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[SqliteStorage]:
        opened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=ManualClock())
        yield opened
        await opened.close()
