"""BM25 as in FTS5, for chunks already looked up. No I/O."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]
Scores: TypeAlias = npt.NDArray[np.float64]

K1: Final = 1.2
B: Final = 0.75
MIN_RARITY: Final = 1e-6
"""Rarity of a term that is in more than half of all chunks."""


class Corpus(NamedTuple):
    """The number of chunks with words, and of their tokens in all columns."""

    chunks: int
    tokens: int

    @property
    def mean_length(self) -> float:
        return self.tokens / self.chunks if self.chunks else 0.0


@dataclass(frozen=True, slots=True)
class Postings:
    """The chunks that contain a term, ascending, its count in each, and its rarity (idf)."""

    chunks: Numbers
    counts: Numbers
    rarity: float


def rarity(chunks: int, having: int) -> float:
    """Return the inverse document frequency of a term that `having` of the chunks contain.

    With a damaged index, `having` may exceed `chunks`.
    """
    return max(math.log((max(chunks - having, 0) + 0.5) / (having + 0.5)), MIN_RARITY)


def approximate_ranking(postings: Sequence[Postings], size: int) -> Iterator[Numbers]:
    """Yield the chunks that contain any of the terms in groups of `size`, best first, as if equally long.

    Most questions need only the first group, so the rest is sorted when the second one is asked for.
    """
    if not postings:
        return
    shares = [each.rarity * weights(each.counts, np.float64(1.0)) for each in postings]
    chunks, scores = _summed(np.concatenate([each.chunks for each in postings]), np.concatenate(shares))
    if len(chunks) > size:
        # All that score like the last one of the group, so that equal scores are in the order of the chunks.
        best = np.flatnonzero(scores >= np.partition(scores, len(scores) - size)[len(scores) - size])
        yield chunks[best[np.argsort(-scores[best], kind="stable")][:size]]
    order = chunks[np.argsort(-scores, kind="stable")]
    for start in range(size if len(chunks) > size else 0, len(order), size):
        yield order[start : start + size]


def _summed(chunks: Numbers, shares: Scores) -> tuple[Numbers, Scores]:
    """Return each chunk once, ascending, with the sum of its shares."""
    if not len(chunks):
        return chunks, shares
    # The stable sort merges the ascending runs of the terms, in half the time of np.unique.
    order = np.argsort(chunks, kind="stable")
    ordered = chunks[order]
    firsts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[firsts], np.add.reduceat(shares[order], firsts)


def scores(rarities: Sequence[float], counts: npt.NDArray[np.float64], lengths: Scores) -> Scores:
    """Return the score of each chunk.

    `counts` has a row per term and a column per chunk; `lengths` are in units of the mean length.
    """
    found: Scores = np.asarray(rarities) @ weights(counts, lengths)
    return found


def counts_of(postings: Postings, chunks: Numbers) -> Numbers:
    """Return the number of occurrences of the term in each of the chunks."""
    positions = np.searchsorted(postings.chunks, chunks)
    positions[positions == len(postings.chunks)] = 0
    has = postings.chunks[positions] == chunks if len(postings.chunks) else np.zeros(len(chunks), np.bool_)
    return np.where(has, postings.counts[positions], 0) if has.any() else np.zeros(len(chunks), np.int64)


def intersect(chunks: Numbers, counts: Numbers, wanted: Numbers) -> tuple[Numbers, Numbers]:
    """Return the wanted chunks with their counts."""
    kept = np.isin(chunks, wanted, assume_unique=True)
    return chunks[kept], counts[kept]


def weights(counts: npt.NDArray[Any], lengths: Scores | np.float64) -> Scores:
    """Return what a term of rarity 1 adds to the score of each chunk."""
    found: Scores = counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths))
    return found
