"""A vector store in memory: exact cosine search over one matrix. For tests, notebooks and small programs."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agentctx.embedding.vector_stores.base import (
    CheckedVectorStore,
    Vector,
    VectorHit,
    VectorRecord,
    Where,
    checked_metadata,
    matches,
    metadata_json,
    require_unicode,
    unit_vector,
)
from agentctx.text.chunking.base import PositionAwareChunk

Rows: TypeAlias = NDArray[np.intp]

_FIRST_CAPACITY: Final = 64


class InMemoryVectorStore(CheckedVectorStore):
    """Brute-force search over unit vectors. `dimension` None uses that of the first record.

    Work runs in threads under a lock, so calls may be concurrent and never block the event loop.
    """

    name = "memory"

    def __init__(self, *, dimension: int | None = None) -> None:
        self.dimension = dimension
        self._lock = threading.Lock()
        self._rows: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        """Row numbers by collection and chunk id."""
        self._chunks: list[tuple[str, PositionAwareChunk]] = []
        """Collection and chunk of each row."""
        self._matrix: Vector = np.empty((0, 0), dtype=np.float32)
        """Unit vectors `(capacity, dimension)`; only the first `len(_chunks)` rows are in use."""

    async def upsert(self, records: Sequence[VectorRecord]) -> None:
        await asyncio.to_thread(self._store, records, replaces=True)

    async def _append(self, records: Sequence[VectorRecord]) -> None:
        await asyncio.to_thread(self._store, records, replaces=False)

    async def _nearest(self, query: Vector, k: int, collection: str | None, where: Where) -> list[VectorHit]:
        require_unicode(collection or "", metadata_json(where))
        return await asyncio.to_thread(self._search, query, k, collection, where)

    async def delete(self, collection: str, ids: Sequence[str]) -> None:
        require_unicode(collection, *ids)
        await asyncio.to_thread(self._delete, [(collection, chunk_id) for chunk_id in ids])

    async def clear(self, collection: str | None = None) -> None:
        require_unicode(collection or "")
        await asyncio.to_thread(self._clear, collection)

    def _store(self, records: Sequence[VectorRecord], *, replaces: bool) -> None:
        with self._lock:
            dimension, vectors = self.dimension, []
            for record in records:
                checked_metadata(record.collection, record.chunk)
                vectors.append(unit_vector(record.embedding, dimension))
                dimension = vectors[0].size
            self.dimension = dimension
            for record, vector in zip(records, vectors, strict=True):
                if replaces:
                    self._remove([(record.collection, record.chunk.id)])
                row = len(self._chunks)
                self._rows[record.collection, record.chunk.id].add(row)
                self._chunks.append((record.collection, record.chunk))
                self._grow(vector.size)
                self._matrix[row] = vector

    def _grow(self, dimension: int) -> None:
        if len(self._chunks) > len(self._matrix):
            capacity = max(_FIRST_CAPACITY, 2 * len(self._matrix))
            grown = np.zeros((capacity, dimension), dtype=np.float32)
            if self._matrix.size:
                grown[: len(self._matrix)] = self._matrix
            self._matrix = grown

    def _delete(self, keys: Iterable[tuple[str, str]]) -> None:
        with self._lock:
            self._remove(keys)

    def _clear(self, collection: str | None) -> None:
        with self._lock:
            self._remove([key for key in self._rows if collection in {None, key[0]}])

    def _remove(self, keys: Iterable[tuple[str, str]]) -> None:
        for key in keys:
            # Highest row first, so that gaps are filled with rows of other keys.
            for row in sorted(self._rows.pop(key, ()), reverse=True):
                self._fill_gap(row)

    def _fill_gap(self, row: int) -> None:
        last = len(self._chunks) - 1
        if row != last:
            collection, chunk = self._chunks[last]
            self._chunks[row] = (collection, chunk)
            self._matrix[row] = self._matrix[last]
            rows = self._rows[collection, chunk.id]
            rows.remove(last)
            rows.add(row)
        self._chunks.pop()

    def _search(self, query: Vector, k: int, collection: str | None, where: Where) -> list[VectorHit]:
        with self._lock:
            rows = self._matching(collection, where)
            vectors = self._matrix[: len(self._chunks)] if rows is None else self._matrix[rows]
            if not vectors.size:
                return []
            distances = np.clip(1.0 - vectors @ query, 0.0, 2.0)
            return [
                self._hit(int(index if rows is None else rows[index]), float(distances[index]))
                for index in _smallest(distances, k)
            ]

    def _matching(self, collection: str | None, where: Where) -> Rows | None:
        """Return the rows to search; None means all."""
        if collection is None and not where:
            return None
        rows = [
            row
            for row, (stored_in, chunk) in enumerate(self._chunks)
            if collection in {None, stored_in} and matches(chunk.metadata, where)
        ]
        return np.asarray(rows, dtype=np.intp)

    def _hit(self, row: int, distance: float) -> VectorHit:
        collection, chunk = self._chunks[row]
        return VectorHit(
            chunk.id,
            chunk.content,
            chunk.doc_id,
            chunk.start,
            chunk.end,
            chunk.metadata,
            collection=collection,
            distance=distance,
        )


def _smallest(distances: Vector, k: int) -> Rows:
    """Return the indices of the `k` smallest, ascending, ties by index."""
    if k < distances.size:
        candidates = np.sort(np.argpartition(distances, k)[:k])
    else:
        candidates = np.arange(distances.size)
    return candidates[np.argsort(distances[candidates], kind="stable")]
