"""Storage interface for answering questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentctx.embedding_providers.base import Vectors
from agentctx.storage.records import (
    ChunksWithTurns,
    Filter,
    NearestChunk,
    QueryVector,
    ResolvedChunk,
    SampledChunk,
    WordResults,
)


class SearchStorage(Protocol):
    """Finds chunks and resolves them to their current text."""

    async def by_words(self, question: str, wanted: Filter, limit: int) -> WordResults:
        """Return the best BM25 hits for up to `limit` chunks: per chunk, one by text and one by a cue.

        All characters of the question are text, never syntax.
        """
        ...

    async def by_vector(self, space: int, query: Vectors, wanted: Filter, limit: int) -> list[NearestChunk]:
        """Return the nearest hits in a space, ascending, for up to `limit` chunks, by text and by cue."""
        ...

    async def distances(self, space: int, query: Vectors, chunks: Sequence[int]) -> dict[int, float]:
        """Return the exact distances of the chunks that have a vector in the space."""
        ...

    async def count_entries(self, namespace: str) -> int:
        """Return the number of live entries in a namespace."""
        ...

    async def resolve(self, chunks: Sequence[int], wanted: Filter) -> dict[int, ResolvedChunk]:
        """Return the chunks that are still live, unexpired and within the filter, with their current text.

        Cues are omitted, because their text is never shown.
        """
        ...

    async def resolve_with_turns(
        self, chunks: Sequence[int], wanted: Filter, near: QueryVector | None = None
    ) -> ChunksWithTurns:
        """Resolve the chunks and, for those in a conversation, the turns around them.

        Only live, unexpired turns within the filter are returned, up to two in each direction.
        """
        ...

    async def sample_chunks(self, limit: int) -> list[SampledChunk]:
        """Sample up to `limit` live chunks evenly across namespaces; repeatable while nothing changes."""
        ...

    @property
    def words_shortfall(self) -> str | None:
        """What keyword search may miss now; None while the keyword index is complete.

        Updated at startup, by each census and rebuild, and by a search that finds damage.
        """
        ...
