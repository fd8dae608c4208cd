"""BM25 as in FTS5, for chunks already looked up. No I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]
Scores: TypeAlias = npt.NDArray[np.float64]

K1: Final = 1.2
B: Final = 0.75
MIN_RARITY: Final = 1e-6
"""Rarity of a term that is in more than half of all chunks."""


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


def approximate_ranking(postings: Sequence[Postings]) -> Numbers:
    """Return the chunks that contain any of the terms, best first, as if all had the same length."""
    if not postings:
        return np.empty(0, np.int64)
    parts = [each.rarity * _share(each.counts, np.float64(1.0)) for each in postings]
    chunks, places = np.unique(np.concatenate([each.chunks for each in postings]), return_inverse=True)
    scores = np.bincount(places, np.concatenate(parts), minlength=len(chunks))
    order: Numbers = chunks[np.argsort(-scores, kind="stable")]
    return order


def scores(rarities: Sequence[float], counts: npt.NDArray[np.float64], lengths: Scores) -> Scores:
    """Return the score of each chunk.

    `counts` has a row per term and a column per chunk; `lengths` are in units of the mean length.
    """
    found: Scores = np.asarray(rarities) @ _share(counts, lengths)
    return found


def counts_of(postings: Postings, chunks: Numbers) -> Numbers:
    """Return the number of occurrences of the term in each of the chunks."""
    places = np.searchsorted(postings.chunks, chunks)
    places[places == len(postings.chunks)] = 0
    has = postings.chunks[places] == chunks if len(postings.chunks) else np.zeros(len(chunks), np.bool_)
    return np.where(has, postings.counts[places], 0) if has.any() else np.zeros(len(chunks), np.int64)


def intersect(chunks: Numbers, counts: Numbers, wanted: Numbers) -> tuple[Numbers, Numbers]:
    """Return the wanted chunks with their counts."""
    kept = np.isin(chunks, wanted, assume_unique=True)
    return chunks[kept], counts[kept]


def _share(counts: npt.NDArray[np.float64] | Numbers, lengths: Scores | np.float64) -> Scores:
    shares: Scores = counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths))
    return shares
