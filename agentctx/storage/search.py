"""Storage searches for questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentctx.embedding_providers.base import Vectors
from agentctx.storage.records import (
    Filter,
    FoundByWords,
    Near,
    NearestChunk,
    ResolvedChunk,
    SampledChunk,
    WithTurns,
)


class SearchStorage(Protocol):
    """Finds chunks, and resolves them to their present text."""

    async def by_words(self, question: str, wanted: Filter, limit: int) -> FoundByWords:
        """Return the best hits by BM25, for up to `limit` chunks: for each, one by text and one by a cue.

        Every character of the question is text, never syntax.
        """
        ...

    async def by_vector(self, space: int, query: Vectors, wanted: Filter, limit: int) -> list[NearestChunk]:
        """Return the nearest hits of a space, ascending, for up to `limit` chunks: by text and by a cue."""
        ...

    async def distances(self, space: int, query: Vectors, chunks: Sequence[int]) -> dict[int, float]:
        """Return exact distances of the chunks that have a vector in the space."""
        ...

    async def count_entries(self, namespace: str) -> int:
        """Return the number of live entries in a namespace."""
        ...

    async def resolve(self, chunks: Sequence[int], wanted: Filter) -> dict[int, ResolvedChunk]:
        """Return the chunks that are (still) live, unexpired and inside the filter, with their present text.

        Cues are left out, because their text is never shown.
        """
        ...

    async def resolve_with_turns(
        self, chunks: Sequence[int], wanted: Filter, near: Near | None = None
    ) -> WithTurns:
        """Return `resolve` of the chunks, and the turns beside the ones that belong to a conversation.

        Only live, unexpired turns inside the filter, up to two in each direction.
        """
        ...

    async def sample_chunks(self, limit: int) -> list[SampledChunk]:
        """Sample up to `limit` live chunks of all namespaces evenly; repeatable while nothing changes."""
        ...

    @property
    def words_shortfall(self) -> str | None:
        """What keyword search may miss at present; None while the keyword index is complete.

        Updated at the start, by each census and rebuild, and by a search that finds damage.
        """
        ...
