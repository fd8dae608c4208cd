"""What an engine does with questions."""

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
    """Finding chunks, and giving them their present text."""

    async def by_words(self, question: str, wanted: Filter, limit: int) -> FoundByWords:
        """The best hits by BM25, for up to `limit` chunks: one by the text and one by a cue for each.

        Every character of the question is text, never syntax.
        """
        ...

    async def by_vector(self, space: int, query: Vectors, wanted: Filter, limit: int) -> list[NearestChunk]:
        """The nearest hits of a space, ascending, for up to `limit` chunks: by the text and by a cue."""
        ...

    async def distances(self, space: int, query: Vectors, chunks: Sequence[int]) -> dict[int, float]:
        """Exact distances of the texts of those chunks that have a vector in the space."""
        ...

    async def count_entries(self, namespace: str) -> int:
        """How many live entries a namespace has."""
        ...

    async def resolve(self, chunks: Sequence[int], wanted: Filter) -> dict[int, ResolvedChunk]:
        """The chunks that are (still) live, unexpired and inside the filter, with their present text.

        None for a cue, whose text nobody is shown.
        """
        ...

    async def resolve_with_turns(
        self, chunks: Sequence[int], wanted: Filter, near: Near | None = None
    ) -> WithTurns:
        """`resolve` of the chunks, and what is said beside those that belong to a conversation.

        Only what is live, unexpired and inside the filter, up to two chunks in each direction.
        """
        ...

    async def sample_chunks(self, limit: int) -> list[SampledChunk]:
        """Up to `limit` live chunks of all namespaces, spread evenly: the same ones while nothing changes."""
        ...

    @property
    def words_shortfall(self) -> str | None:
        """What keyword search may miss now, for people; None while the keyword index is complete.

        As of the start, of the last census, of each rebuild, and of a search that met damage.
        """
        ...
