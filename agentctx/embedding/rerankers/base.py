"""The interface of rerankers, and how scores become an order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from agentctx.errors import InvalidInput, ProviderFailed
from agentctx.text.chunking.base import PositionAwareChunk


class Reranker(Protocol):
    """The spec's reranker: reads the question together with each chunk, and puts the best chunks first."""

    @property
    def name(self) -> str: ...

    async def rerank(
        self, query: str, chunks: Sequence[PositionAwareChunk], top_k: int | None = None
    ) -> list[PositionAwareChunk]:
        """Return at most `top_k` of the given chunks, the most relevant first; by default, all of them.

        Chunks of equal relevance keep their order. No chunk is invented, and none is returned more often than
        it was given. Without chunks, or with a `top_k` of 0, no call is made.

        Raises:
            InvalidInput: `top_k` is negative.
            ProviderFailed: the chunks could not be scored; use the given order instead.
        """


class ClosableReranker(Reranker, Protocol):
    """A reranker that the daemon can own."""

    async def aclose(self) -> None:
        """Release its resources; idempotent."""


def result_count(count: int, top_k: int | None) -> int:
    """Return how many of `count` chunks are wanted.

    Raises:
        InvalidInput: `top_k` is negative.
    """
    if top_k is None:
        return count
    if top_k < 0:
        raise InvalidInput(f"Invalid top_k {top_k}.", hint="Use 0 or more, or omit it for all chunks.")
    return min(top_k, count)


def best_first(
    chunks: Sequence[PositionAwareChunk], scores: Sequence[float], count: int
) -> list[PositionAwareChunk]:
    """Return the `count` chunks with the highest scores; ties keep their order.

    Raises:
        ProviderFailed: there is not one finite score per chunk (a NaN would make the order random).
    """
    if len(scores) != len(chunks):
        raise ProviderFailed(f"Expected {len(chunks)} scores, got {len(scores)}.")
    if not all(math.isfinite(score) for score in scores):
        raise ProviderFailed("The reranker returned a score that is not finite.")
    order = sorted(range(len(chunks)), key=lambda at: -scores[at])
    return [chunks[at] for at in order[:count]]
