"""The rows of a reply: vectors of `FakeProvider` in the dimensions of real models, scores, and faults."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from agentctx.embedding.providers.fake import FakeProvider
from agentctx.errors import ProviderFailed
from agentctx.storage.vectors import Vectors
from agentctx_testing.fake_provider.faults import Kind
from agentctx_testing.fake_provider.requests import EmbedRequest, FakeRefusal, RefusalError, RerankRequest

_RECALL_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Row:
    """The index of a text or document, and its vector; a score is a vector of length 1."""

    index: int
    values: Vectors

    @property
    def score(self) -> float:
        return float(self.values[0])


@dataclass(frozen=True, slots=True)
class ModelDimensions:
    """The default dimension of a model's vectors, and the largest that may be requested."""

    default: int
    largest: int


_DIMENSIONS = {
    "text-embedding-3-large": 3_072,
    "text-embedding-3-small": 1_536,
    "text-embedding-ada-002": 1_536,
    "gemini-embedding": 3_072,
    "embed-v": 1_536,
    "nomic-embed-text": 768,
    "embeddinggemma": 768,
    "all-minilm": 384,
}
_DEFAULT_DIMENSION = 1_024


def dimensions_of(model: str, dimension: int | None = None) -> ModelDimensions:
    """Return the lengths of a model by the prefix of its name; an unknown model has 1,024.
    `dimension` is the server's own setting and overrides every model's.
    """
    if dimension is not None:
        return ModelDimensions(dimension, dimension)
    if model.startswith("voyage"):
        return ModelDimensions(1_024, 2_048)
    prefix = next(filter(model.startswith, _DIMENSIONS), "")
    known = _DIMENSIONS.get(prefix, _DEFAULT_DIMENSION)
    return ModelDimensions(known, known)


async def embed(request: EmbedRequest, dimension: int | None = None) -> list[Row]:
    """Return a row for each text. A shorter vector is a prefix of the longest, rescaled to length 1 if the
    provider does so (`request.unit_length`).

    Raises:
        RefusalError: a length that the model does not give, or a text that is not valid Unicode.
    """
    possible = dimensions_of(request.model, dimension)
    length = possible.default if request.dimension is None else request.dimension
    if not 1 <= length <= possible.largest:
        raise RefusalError(FakeRefusal(400, f"dimensions must be from 1 to {possible.largest}, not {length}"))
    try:
        # A word's numbers come from one stream, so a shorter vector has the direction of a longer one's.
        embedded_length = length if request.unit_length else possible.largest
        vectors = await FakeProvider(embedded_length, model=request.model).embed(request.texts)
    except ProviderFailed as failed:
        raise RefusalError(FakeRefusal(400, failed.message)) from failed
    return [Row(index, row[:length]) for index, row in enumerate(vectors)]


async def rank(request: RerankRequest, _: int | None = None) -> list[Row]:
    """Return the best documents first, ties in the order given; scores are from 0 to 1."""
    rows = [
        Row(index, np.array([overlap(request.query, document)], np.float32))
        for index, document in enumerate(request.documents)
    ]
    return sorted(rows, key=lambda row: -row.score)[: request.top]


def in_order(rows: list[Row]) -> list[Row]:
    """Return the rows by index, for a format without indexes."""
    return sorted(rows, key=lambda row: row.index)


def overlap(query: str, document: str) -> float:
    """Score a document mostly by the share of the query's words in it; a shorter document wins a tie."""
    asked, held = _words(query), _words(document)
    shared = len(asked & held)
    if not shared:
        return 0.0
    return _RECALL_SHARE * shared / len(asked) + (1 - _RECALL_SHARE) * shared / len(held)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def corrupt(kind: Kind, rows: list[Row]) -> list[Row]:
    """Apply a fault of this kind to the rows; kinds that do not concern rows change nothing."""
    match kind:
        case "too_few":
            return rows[:-1]
        case "too_many":
            return [*rows, replace(rows[-1], index=len(rows))]
        case "wrong_order":
            return rows[::-1]
        case "empty":
            return []
        case "wrong_dimension" | "nan" | "zeros":
            return [replace(row, values=_corrupted(kind, row.values)) for row in rows]
        case _:
            return rows


def _corrupted(kind: Kind, values: Vectors) -> Vectors:
    if kind == "wrong_dimension":
        return values[:-1] if len(values) > 1 else values
    return np.full_like(values, np.nan if kind == "nan" else 0)
