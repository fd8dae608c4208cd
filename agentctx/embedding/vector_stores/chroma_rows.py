"""How records are stored in Chroma, and read back. Does no I/O and does not use Chroma.

Chroma's metadata is flat. Each record has the fields `collection`, `doc_id`, `start` and `end`. `metadata`
holds the whole metadata as JSON, which is read back. `terms` holds a list with one text for each scalar of
the metadata, which `where` searches. It is a list because, when replacing a record, Chroma merges the old
keys into the new ones, and would keep finding the record by outdated values; it holds texts because Chroma
has no null.

Chroma keeps one record for each of its own ids. The id of an upserted record is its collection and chunk id;
an added record also has a random text in its id, and the plain pair under `added_as`.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agentctx.embedding.vector_stores.base import (
    MAX_K,
    Vector,
    VectorHit,
    Where,
    checked_metadata,
    require_unicode,
)
from agentctx.errors import StorageFailed
from agentctx.text.chunking.base import PositionAwareChunk

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection


MAX_REQUEST_BYTES: Final = 8 * 2**20
"""Maximum estimated size of a request; Chroma's server accepts 40 MiB."""

_ANY_RECORD: Final = "*"
"""A term of every record, because Chroma accepts no empty list."""
_LONGEST_TERM: Final = 256
_TOKEN_BYTES: Final = 16
_BYTES_PER_NUMBER: Final = 24
_BYTES_PER_CHARACTER: Final = 6
Condition: TypeAlias = dict[str, Any] | None

_MAX_RANKED: Final = 4 * MAX_K
"""Maximum number of records at one distance that are ordered; beyond that, Chroma chooses among them."""


@dataclass(frozen=True, slots=True)
class ChromaRow:
    """One record as stored in Chroma."""

    id: str
    embedding: Vector
    document: str
    metadata: Mapping[str, Any]

    @property
    def request_bytes(self) -> int:
        """An upper estimate of what the row adds to a request."""
        texts = 2 * len(self.id) + len(self.document) + len(self.metadata["metadata"])
        terms = sum(map(len, self.metadata["terms"]))
        return _BYTES_PER_NUMBER * self.embedding.size + _BYTES_PER_CHARACTER * (texts + terms)


def row_id(collection: str, chunk_id: str) -> str:
    """Return the identity as one text: never empty, and unique to the pair."""
    return json.dumps([collection, chunk_id], ensure_ascii=False)


def appended(row: ChromaRow) -> ChromaRow:
    """Give the row a unique id, so that it replaces no other of the same collection and chunk id."""
    collection, chunk_id = json.loads(row.id)
    own_id = json.dumps([collection, chunk_id, secrets.token_hex(_TOKEN_BYTES)], ensure_ascii=False)
    return replace(row, id=own_id, metadata={**row.metadata, "added_as": row.id})


def filter_of_added(row_ids: Sequence[str]) -> dict[str, Any]:
    """Return Chroma's `where` for the added rows with the collection and chunk id of these row ids."""
    return {"added_as": {"$in": list(row_ids)}}


def row_of(collection: str, chunk: PositionAwareChunk, vector: Vector) -> ChromaRow:
    """Convert a chunk to its row.

    Raises:
        InvalidInput: the metadata is not JSON, or a text has half of a surrogate pair.
    """
    metadata = checked_metadata(collection, chunk)
    scalars = (item for item in json.loads(metadata).items() if not isinstance(item[1], list | dict))
    terms = [_term(key, value) for key, value in scalars]
    return ChromaRow(
        row_id(collection, chunk.id),
        vector,
        chunk.content,
        {
            "collection": collection,
            "doc_id": chunk.doc_id,
            "start": chunk.start,
            "end": chunk.end,
            "metadata": metadata,
            "terms": [_ANY_RECORD, *terms],
        },
    )


class VanishedRow(StorageFailed):
    """A row of ours has lost its metadata, because Chroma is deleting its collection."""


def hit_of(
    stored_id: str, document: str | None, metadata: Mapping[str, Any] | None, distance: float
) -> VectorHit:
    """Convert a stored row to a hit.

    Raises:
        RowVanishing: the row is being deleted.
        StorageFailed: the row was not written by this store.
    """
    try:
        collection, chunk_id, *_ = json.loads(stored_id)
        if not metadata:
            raise VanishedRow("the Chroma collection is being deleted", hint="Ask again.")
        row = dict(metadata)
        return VectorHit(
            chunk_id,
            document or "",
            row["doc_id"],
            row["start"],
            row["end"],
            json.loads(row["metadata"]),
            collection=collection,
            distance=min(max(distance, 0.0), 2.0),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StorageFailed(
            "The Chroma collection contains records not written by agentctx.",
            hint="Give agentctx a Chroma collection of its own.",
        ) from error


def filter_of(collection: str | None, where: Where) -> dict[str, Any] | None:
    """Return Chroma's `where`, or None to match everything.

    Raises:
        InvalidInput: a text has half of a surrogate pair.
    """
    conditions: list[dict[str, Any]] = [] if collection is None else [{"collection": collection}]
    conditions += [{"terms": {"$contains": _term(key, value)}} for key, value in where.items()]
    require_unicode(*(collection or "", *(json.dumps(pair, ensure_ascii=False) for pair in where.items())))
    if len(conditions) > 1:
        return {"$and": conditions}
    return conditions[0] if conditions else None


def batches_of(rows: Iterable[ChromaRow], *, max_rows: int, max_bytes: int) -> Iterator[list[ChromaRow]]:
    """Split the rows into batches within both limits, in order; a row over `max_bytes` is sent alone."""
    batch: list[ChromaRow] = []
    size = 0
    for row in rows:
        if batch and (len(batch) == max_rows or size + row.request_bytes > max_bytes):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += row.request_bytes
    if batch:
        yield batch


def _term(key: str, value: object) -> str:
    """Return one text for a key and a scalar. Equal numbers have equal terms, and `true` is not 1."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    term = json.dumps([key, value], ensure_ascii=False)
    if len(term) <= _LONGEST_TERM:
        return term
    return hashlib.sha256(term.encode(errors="surrogatepass")).hexdigest()


def nearest(query: Vector, k: int, condition: Condition, collection: Collection) -> list[VectorHit]:
    """Return the `k` nearest; equal distances are ordered by collection, chunk id and position.

    Chroma's index walks a graph, parts of which may be unreachable, most often among equal vectors. So an
    answer with too few records is replaced by an exact search. An answer that ends among equal distances is
    requested again with a larger limit.
    """
    asked = k + 1
    while True:
        hits = _by_index(query, asked, condition, collection)
        if len(hits) < asked:
            more = collection.get(where=condition, limit=len(hits) + 1, include=[])["ids"]
            if len(more) > len(hits):
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


def _by_all_vectors(query: Vector, k: int, condition: Condition, collection: Collection) -> list[VectorHit]:
    stored = collection.get(where=condition, include=["embeddings"])
    distances = distances_of(query, stored["embeddings"])
    ranked = sorted(zip(distances.tolist(), stored["ids"], strict=True))[:k]
    distance_of = {row_id: distance for distance, row_id in ranked}
    records = collection.get(ids=list(distance_of), include=["documents", "metadatas"])
    columns = zip(records["ids"], records["documents"], records["metadatas"], strict=True)
    return [hit_of(row_id, text, metadata, distance_of[row_id]) for row_id, text, metadata in columns]


def distances_of(query: Vector, embeddings: Sequence[Any] | None) -> NDArray[np.float32]:
    """Return the exact cosine distances of unit vectors, `(len(embeddings),)`."""
    if embeddings is None or not len(embeddings):
        return np.empty(0, np.float32)
    # Rounded to float32 after the sum, so that equal vectors have equal distances at any position.
    products = np.asarray(embeddings, np.float64) @ query.astype(np.float64)
    return (1.0 - products).astype(np.float32)


def _rank(hit: VectorHit) -> tuple[float, str, str, str, int]:
    return hit.distance, hit.collection, hit.id, hit.doc_id, hit.start
