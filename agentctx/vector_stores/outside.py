"""Vectors of spaces kept outside of the database file: what the daemon asks of a store that does it.

Such a store holds no text: ids of chunks, what narrows a search, and the vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentctx.vector_stores.base import Vector


@dataclass(frozen=True, slots=True)
class ChunkVector:
    """A vector to store, with what narrows a search."""

    chunk: int
    namespace: str
    collection: str
    session: str
    vector: Vector
    """Unit length, `(dimension,)`."""


class OutsideVectors(Protocol):
    """The vectors of one installation, by space.

    Every method raises `StorageFailed` when the store does not answer, does not answer in time or refuses.
    All writes are idempotent. A space that nothing was stored in is empty.
    """

    name: str

    async def upsert(self, space: int, vectors: Sequence[ChunkVector]) -> None:
        """Store vectors; those of chunks that have one are replaced."""
        ...

    async def delete(self, space: int, chunks: Sequence[int]) -> None:
        """Remove the vectors of chunks; those not stored do not matter."""
        ...

    async def drop(self, space: int) -> None:
        """Remove everything of a space."""
        ...

    async def nearest(
        self,
        space: int,
        query: Vector,
        limit: int,
        *,
        namespace: str,
        collections: Sequence[str] | None = None,
        session: str | None = None,
        among: Sequence[int] | None = None,
    ) -> list[tuple[int, float]]:
        """The `limit` nearest chunks of the namespace by cosine distance, ascending.

        With `among`, those of these chunks: whoever names them has chosen them by namespace, collections and
        session already, and a store need not look again.
        """
        ...

    async def distances(self, space: int, query: Vector, chunks: Sequence[int]) -> dict[int, float]:
        """Exact cosine distances of those chunks that have a vector."""
        ...

    async def places(self, space: int) -> Mapping[int, tuple[str, str, str]]:
        """Namespace, collection and session of every vector, by chunk."""
        ...

    async def faulty(self, space: int, dimension: int) -> list[int]:
        """Chunks whose vector is not `dimension` finite numbers, not all zero; reads everything."""
        ...

    async def aclose(self) -> None:
        """Close what was opened. Idempotent."""
        ...
