"""Validates the arguments of vector stores, the same way for every store."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from agentctx.chunking.base import PositionAwareChunk
from agentctx.errors import InvalidInput
from agentctx.vector_stores.base import (
    DEFAULT_COLLECTION,
    DEFAULT_K,
    MAX_K,
    Vector,
    VectorHit,
    VectorRecord,
    checked_vector,
)

Scalar: TypeAlias = str | int | float | bool | None
Where: TypeAlias = Mapping[str, Scalar]

_INT64: Final = range(-(2**63), 2**63)


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


def unit_vector(embedding: ArrayLike, dimension: int | None) -> Vector:
    """Validate the vector and scale it to length 1: this keeps the cosine and avoids float32 over- and
    underflow.

    Raises:
        InvalidInput: see `checked_vector`.
    """
    vector = _checked(embedding, dimension).astype(np.float64)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def _checked(embedding: ArrayLike, dimension: int | None) -> Vector:
    # A value too large for float32 becomes infinite and is rejected as such.
    with np.errstate(over="ignore"):
        return checked_vector(embedding, dimension)


def checked_k(k: int) -> int:
    """Return `k` if it is from 1 to 4096, else raise InvalidInput."""
    if not _is_whole(k) or not 1 <= k <= MAX_K:
        raise InvalidInput(f"Invalid k {k!r}. Use a whole number from 1 to {MAX_K}.")
    return k


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


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_scalar(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return value in _INT64
    return value is None or isinstance(value, str)


def metadata_json(metadata: Mapping[str, Any]) -> str:
    """Encode the metadata of a chunk. Raises `InvalidInput` if a value is not one of JSON's."""
    try:
        return json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            "Metadata must be JSON values: strings, finite numbers, lists, objects."
        ) from error


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
        VectorRecord(chunk=chunk, embedding=_checked(vector, None), collection=collection)
        for chunk, vector in zip(chunks, vectors, strict=True)
    ]
