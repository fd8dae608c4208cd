"""Questions against the words and the vectors, and the present text of what they find."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from agentctx.embedding_providers.base import Vectors
from agentctx.errors import StorageCorrupt
from agentctx.storage.records import Filter, NearestChunk, ResolvedChunk, SampledChunk, WordHit
from agentctx.storage.sqlite import search
from agentctx.storage.sqlite.connections import SqliteConnections
from agentctx.storage.sqlite.word_rebuild import UNREADABLE


class SqliteSearch(SqliteConnections):
    """See the protocol for each method."""

    async def search_words(self, question: str, wanted: Filter, limit: int) -> list[WordHit]:
        try:
            return await self._readers.run(
                partial(search.by_words, question=question, wanted=wanted, limit=limit, now=self._clock())
            )
        except StorageCorrupt:
            self.words_shortfall = UNREADABLE
            raise

    async def search_vectors(
        self, space: int, query: Vectors, wanted: Filter, limit: int
    ) -> list[NearestChunk]:
        hits = await self._readers.run(
            partial(
                search.by_vector,
                space=space,
                query=query,
                wanted=wanted,
                limit=limit,
                now=self._clock(),
                faults=self.faults,
                copies=self._copies,
            )
        )
        self._copies.refresh_soon(space)
        return hits

    async def distances(self, space: int, query: Vectors, chunks: Sequence[int]) -> dict[int, float]:
        return await self._readers.run(
            partial(search.distances, space=space, query=query, chunks=chunks, faults=self.faults)
        )

    async def resolve(self, chunks: Sequence[int], wanted: Filter) -> dict[int, ResolvedChunk]:
        return await self._readers.run(
            partial(search.resolve, chunks=chunks, wanted=wanted, now=self._clock(), faults=self.faults)
        )

    async def sample_chunks(self, limit: int) -> list[SampledChunk]:
        return await self._readers.run(partial(search.sample, limit=limit))
