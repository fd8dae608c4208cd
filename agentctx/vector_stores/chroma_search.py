"""Searches in one Chroma collection: complete, and in a fixed order. Blocking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agentctx.vector_stores.base import MAX_K, Vector, VectorHit
from agentctx.vector_stores.chroma_rows import hit_of

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

Condition: TypeAlias = dict[str, Any] | None

_MAX_RANKED: Final = 4 * MAX_K
"""How many records of one distance are put in order at most; beyond, Chroma chooses among them."""


def nearest(query: Vector, k: int, condition: Condition, collection: Collection) -> list[VectorHit]:
    """The `k` nearest, equal distances by collection, chunk id and place.

    Chroma's index walks a graph, and parts of it may be out of reach, most often among equal vectors: an
    answer that is short although more records fit is replaced by an exact one. One that ends among equal
    distances is asked for again, longer.
    """
    asked = k + 1
    while True:
        hits = _by_index(query, asked, condition, collection)
        if len(hits) < asked:
            if _has_more(collection, condition, len(hits)):
                hits = _by_all_vectors(query, k, condition, collection)
            break
        if hits[k - 1].distance != hits[-1].distance or asked >= _MAX_RANKED:
            break
        asked = min(4 * asked, _MAX_RANKED)
    return sorted(hits, key=_rank)[:k]


def _by_index(query: Vector, count: int, condition: Condition, collection: Collection) -> list[VectorHit]:
    answer = collection.query(
        query_embeddings=[query],
        n_results=count,
        where=condition,
        include=["documents", "metadatas", "distances"],
    )
    columns = (answer[name][0] for name in ("ids", "documents", "metadatas", "distances"))
    return [hit_of(*row) for row in zip(*columns, strict=True)]


def _has_more(collection: Collection, condition: Condition, count: int) -> bool:
    """Whether more than `count` records fit."""
    return len(collection.get(where=condition, limit=count + 1, include=[])["ids"]) > count


def _by_all_vectors(query: Vector, k: int, condition: Condition, collection: Collection) -> list[VectorHit]:
    stored = collection.get(where=condition, include=["embeddings"])
    distances = distances_of(query, stored["embeddings"])
    ranked = sorted(zip(distances.tolist(), stored["ids"], strict=True))[:k]
    distance_of = {row_id: distance for distance, row_id in ranked}
    found = collection.get(ids=list(distance_of), include=["documents", "metadatas"])
    columns = zip(found["ids"], found["documents"], found["metadatas"], strict=True)
    return [hit_of(row_id, text, metadata, distance_of[row_id]) for row_id, text, metadata in columns]


def distances_of(query: Vector, embeddings: Sequence[Any] | None) -> NDArray[np.float32]:
    """Exact cosine distances of unit vectors, `(len(embeddings),)`."""
    if embeddings is None or not len(embeddings):
        return np.empty(0, np.float32)
    # Rounded to float32 after the sum, so that equal vectors have equal distances wherever they stand.
    products = np.asarray(embeddings, np.float64) @ query.astype(np.float64)
    return (1.0 - products).astype(np.float32)


def _rank(hit: VectorHit) -> tuple[float, str, str, str, int]:
    return hit.distance, hit.collection, hit.id, hit.doc_id, hit.start
