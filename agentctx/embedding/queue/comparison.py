"""Compare a new space with the active one, by searching both with sampled stored texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agentctx.embedding.providers.base import EmbeddingProvider, embed_questions
from agentctx.storage.base import Storage
from agentctx.storage.search import Filter, NearestChunk, SampledChunk
from agentctx.storage.vectors import Vectors

SAMPLE: Final = 50
NEAREST: Final = 10
MIN_SELF_RETRIEVAL: Final = 0.8
"""Below this, a model does not tell texts apart, and there is no automatic switch to it."""
_TIE: Final = 1e-6
"""Tolerance, because equal texts are equally near."""


@dataclass(frozen=True, slots=True)
class SearchedSpace:
    """A space, and the provider that embeds questions for it."""

    space: int
    provider: EmbeddingProvider


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of searching both spaces with sampled texts."""

    sampled: int
    """Number of texts that were searched."""
    self_retrieval: float
    """Share of texts whose own entry was the nearest in the new space, 0 to 1."""
    overlap: float | None
    """Share of the ten nearest others common to both spaces, 0 to 1; None if the active one gives none."""


async def compare(storage: Storage, new: SearchedSpace, present: SearchedSpace | None) -> Comparison | None:
    """Search with a sample of the stored texts; None if nothing is stored.

    Raises:
        ProviderFailed: a model did not answer.
        StorageFailed, DeadlineExceeded: the vectors could not be searched.
    """
    self_found: list[bool] = []
    shares: list[float] = []
    chunks = await storage.search.sample_chunks(SAMPLE)
    texts = [chunk.text for chunk in chunks]
    if not texts:
        return None
    queries = await embed_questions(new.provider, texts)
    others = await embed_questions(present.provider, texts) if present else queries
    for chunk, query, other in zip(chunks, queries, others, strict=True):
        near, own = await _ask(storage, new.space, chunk, query)
        if own is None:
            continue  # still pending, or buried
        self_found.append(finds_own_chunk(chunk, own, near))
        if present is not None:
            share = overlap(chunk, near, (await _ask(storage, present.space, chunk, other))[0])
            shares += [] if share is None else [share]
    if not self_found:
        return None
    return Comparison(len(self_found), _mean(self_found), _mean(shares) if shares else None)


def finds_own_chunk(chunk: SampledChunk, own: float, near: Sequence[NearestChunk]) -> bool:
    """Return whether no other entry is nearer to a text than its own stored chunk, at distance `own`."""
    return any(hit.entry == chunk.entry or own <= hit.distance + _TIE for hit in near[:1])


def overlap(chunk: SampledChunk, one: Sequence[NearestChunk], other: Sequence[NearestChunk]) -> float | None:
    """Return the share of nearest chunks found in both, except the text itself; None if there are none."""
    first, second = (
        [hit.chunk for hit in hits if hit.chunk != chunk.chunk][:NEAREST] for hits in (one, other)
    )
    smaller = min(len(first), len(second))
    return len(set(first) & set(second)) / smaller if smaller else None


async def _ask(
    storage: Storage, space: int, chunk: SampledChunk, query: Vectors
) -> tuple[Sequence[NearestChunk], float | None]:
    """Return the chunks nearest to the text, and the distance of its own stored vector."""
    near = await storage.search.by_vector(space, query, Filter(namespace=chunk.namespace), NEAREST + 1)
    own = await storage.search.distances(space, query, [chunk.chunk])
    return near, own.get(chunk.chunk)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
