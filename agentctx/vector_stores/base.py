"""The public vector store: every record is the vector of a position-aware chunk with metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentctx.chunking.base import PositionAwareChunk
from agentctx.errors import InvalidInput

Vector: TypeAlias = NDArray[np.float32]
DEFAULT_COLLECTION = "default"
DEFAULT_K = 5
MAX_K = 4096
"""The limit of sqlite-vec, applied by every store so that they are interchangeable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRecord:
    """A chunk's vector, identified in `upsert` and `delete` by `(collection, chunk.id)`."""

    chunk: PositionAwareChunk
    embedding: Vector
    collection: str = DEFAULT_COLLECTION


@dataclass(frozen=True, slots=True)
class VectorHit(PositionAwareChunk):
    """A stored chunk near the query. `distance` is cosine: 0 same direction, 1 orthogonal, 2 opposite."""

    collection: str = field(default=DEFAULT_COLLECTION, kw_only=True)
    distance: float = field(default=0.0, kw_only=True)


class VectorStore(Protocol):
    """Upserts, searches and deletes vectors of chunks.

    Every method raises `InvalidInput`, and changes nothing, if a vector is not finite, is zero or differs in
    dimension from the store.
    """

    @property
    def name(self) -> str: ...

    async def upsert(self, records: Sequence[VectorRecord]) -> None:
        """Store the records; each replaces all stored records with the same `(collection, chunk.id)`."""

    async def add(
        self,
        chunks: Sequence[PositionAwareChunk],
        embeddings: Sequence[ArrayLike] | ArrayLike,
        *,
        collection: str = DEFAULT_COLLECTION,
    ) -> None:
        """Append a record for each chunk and its vector; both lists have the same length.

        Nothing is replaced, whatever the ids: equal chunks are stored as often as they are added, and
        existing records stay.
        """

    async def search(
        self,
        query_embedding: ArrayLike,
        k: int = DEFAULT_K,
        *,
        collection: str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> list[VectorHit]:
        """Return the `k` nearest records by ascending distance; `where` requires equal metadata values."""

    async def delete(self, collection: str, ids: Sequence[str]) -> None:
        """Remove every record with one of these chunk ids; unknown ids are ignored."""

    async def clear(self, collection: str | None = None) -> None:
        """Remove all records, or all records of one collection."""


def checked_vector(embedding: ArrayLike, dimension: int | None) -> Vector:
    """Return the vector as float32 `(dimension,)`.

    Raises:
        InvalidInput: the vector is not one-dimensional, has another dimension, is not finite or is zero. A
            NaN would rank first in every answer of sqlite-vec.
    """
    try:
        vector = np.ascontiguousarray(embedding, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"A vector must be a list of numbers: {error}") from error
    if vector.ndim != 1 or vector.size == 0:
        raise InvalidInput(f"A vector must be one-dimensional and not empty; got shape {vector.shape}.")
    if dimension is not None and vector.size != dimension:
        raise InvalidInput(f"This store takes vectors of length {dimension}, got {vector.size}.")
    if not np.isfinite(vector).all():
        raise InvalidInput("A vector has numbers that are not finite.")
    if not vector.any():
        raise InvalidInput("A zero vector has no direction.")
    return vector
