"""The public vector store: every record is the vector of a position-aware chunk with metadata."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentctx.errors import InvalidInput
from agentctx.text.chunking.base import PositionAwareChunk

Vector: TypeAlias = NDArray[np.float32]
Scalar: TypeAlias = str | int | float | bool | None
Where: TypeAlias = Mapping[str, Scalar]
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


class CheckedVectorStore(ABC):
    """The base of the stores: validates the arguments of `add` and `search`. See `VectorStore`."""

    dimension: int | None
    """Length of the vectors; None until the first one."""

    async def add(
        self,
        chunks: Sequence[PositionAwareChunk],
        embeddings: Sequence[ArrayLike] | ArrayLike,
        *,
        collection: str = DEFAULT_COLLECTION,
    ) -> None:
        await self._append(records_of(chunks, embeddings, collection))

    async def search(
        self,
        query_embedding: ArrayLike,
        k: int = DEFAULT_K,
        *,
        collection: str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> list[VectorHit]:
        query = unit_vector(query_embedding, self.dimension)
        return await self._nearest(query, checked_k(k), collection, checked_where(where))

    @abstractmethod
    async def _append(self, records: Sequence[VectorRecord]) -> None:
        """Store the records; none is replaced."""

    @abstractmethod
    async def _nearest(self, query: Vector, k: int, collection: str | None, where: Where) -> list[VectorHit]:
        """Return the `k` nearest to the unit vector."""


def checked_vector(embedding: ArrayLike, dimension: int | None) -> Vector:
    """Return the vector as float32 `(dimension,)`.

    Raises:
        InvalidInput: the vector is not one-dimensional, has another dimension, is not finite or is zero. A
            NaN would rank first in every answer of sqlite-vec.
    """
    try:
        # A value too large for float32 becomes infinite and is refused as such.
        with np.errstate(over="ignore"):
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


def unit_vector(embedding: ArrayLike, dimension: int | None) -> Vector:
    """Validate the vector and scale it to length 1: this keeps the cosine and avoids float32 over- and
    underflow.

    Raises:
        InvalidInput: see `checked_vector`.
    """
    vector = checked_vector(embedding, dimension).astype(np.float64)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def checked_k(k: int) -> int:
    """Return `k` if it is from 1 to 4096, else raise InvalidInput."""
    if type(k) is not int or not 1 <= k <= MAX_K:
        raise InvalidInput(f"Invalid k {k!r}. Use a whole number from 1 to {MAX_K}.")
    return k


def require_unicode(*texts: str) -> None:
    """Check that every text can be encoded in UTF-8, else raise InvalidInput."""
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput("A text contains a lone surrogate, which is not a character.") from error


def checked_where(where: Mapping[str, Any] | None) -> Where:
    """Validate the conditions: each maps a metadata key to the JSON scalar that it must equal.

    Raises:
        InvalidInput: a value is a list, an object, not finite, or an integer of more than 64 bits.
    """
    for key, value in (where or {}).items():
        if not _is_scalar(value):
            raise InvalidInput(
                f"where[{key!r}] must be a string, a finite number of at most 64 bits, true, false or null."
            )
    return where or {}


def _is_scalar(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return value is None or isinstance(value, str)


def metadata_json(metadata: Mapping[str, Any]) -> str:
    """Encode the metadata of a chunk. Raises `InvalidInput` if a value is not one of JSON's."""
    try:
        return json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            "Metadata must be JSON values: strings, finite numbers, lists, objects."
        ) from error


def checked_metadata(collection: str, chunk: PositionAwareChunk) -> str:
    """Encode the metadata of a chunk, and check that all its texts can be stored. Raises `InvalidInput`."""
    metadata = metadata_json(chunk.metadata)
    require_unicode(collection, chunk.id, chunk.content, chunk.doc_id, metadata)
    return metadata


def matches(metadata: Mapping[str, Any], where: Where) -> bool:
    """Return whether every condition holds. As in JSON, `true` is not 1, and a missing key is not null."""
    return all(key in metadata and _equal(metadata[key], value) for key, value in where.items())


def _equal(stored: object, wanted: Scalar) -> bool:
    return isinstance(stored, bool) == isinstance(wanted, bool) and stored == wanted


def records_of(
    chunks: Sequence[PositionAwareChunk], embeddings: Sequence[ArrayLike] | ArrayLike, collection: str
) -> list[VectorRecord]:
    """Pair each chunk with its vector.

    Raises:
        InvalidInput: the lists differ in length, or a vector is invalid.
    """
    try:
        vectors = list(embeddings)  # type: ignore[arg-type]  # a scalar array is caught here
    except TypeError as error:
        raise InvalidInput("`embeddings` must be a list of vectors.") from error
    if len(vectors) != len(chunks):
        raise InvalidInput(f"Got {len(chunks)} chunks but {len(vectors)} embeddings.")
    return [
        VectorRecord(chunk=chunk, embedding=checked_vector(vector, None), collection=collection)
        for chunk, vector in zip(chunks, vectors, strict=True)
    ]
