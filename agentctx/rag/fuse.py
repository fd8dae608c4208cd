"""Joins what was found by words with what was found by meaning into one ranking. No I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agentctx.rag.cues import CUE_DISCOUNT, nearest_of, word_scores
from agentctx.storage.records import NearestChunk, WordHit

DENSE_WEIGHT = 0.5
LEAST_OF_IDEAL = 0.65
"""Share of the score of a text with all words of the question that the best needs to count as 1.

In a small memory the best by words may have one chance word, and must not outvote meaning for it.
"""


class Candidate(NamedTuple):
    """A chunk that may be part of the answer.

    `word_score` grows with relevance; None when the words did not find it. `distance` is cosine, 0 to 2;
    None when the chunk has no vector. `score` orders the candidates of one question, higher is better.
    `relevance` is the probability that it answers the question, 0 before it was judged; `by_words`: words
    alone decided it. `by_cue`: the distance is that of a cue.
    """

    chunk: int
    entry: str
    word_score: float | None
    distance: float | None
    score: float = 0.0
    relevance: float = 0.0
    by_words: bool = False
    by_cue: bool = False


def merge(
    word_hits: Sequence[WordHit], vector_hits: Sequence[NearestChunk], distances: Mapping[int, float]
) -> list[Candidate]:
    """The union of both searches, one candidate a chunk, not yet scored.

    `distances` holds the exact distances of chunks that only the words found, where they have a vector.
    """
    near = nearest_of(vector_hits, distances)
    by_words = word_scores(word_hits)
    found = {hit.chunk for hit in by_words}
    return [
        *(_by_words(hit, near.get(hit.chunk), distances) for hit in by_words),
        *(
            Candidate(hit.chunk, hit.entry, None, hit.distance, by_cue=hit.by_cue)
            for hit in near.values()
            if hit.chunk not in found
        ),
    ]


def _by_words(hit: WordHit, near: NearestChunk | None, distances: Mapping[int, float]) -> Candidate:
    if near is None:
        return Candidate(hit.chunk, hit.entry, hit.score, distances.get(hit.chunk))
    return Candidate(hit.chunk, hit.entry, hit.score, near.distance, by_cue=near.by_cue)


def fuse(
    candidates: Sequence[Candidate], dense_weight: float = DENSE_WEIGHT, ideal: float = 0.0
) -> list[Candidate]:
    """The candidates with their fused score, best first; ties by distance, then by chunk.

    Each side is scaled to 0…1: word scores by the best of them, since BM25 has a zero, but by no less than a
    share of `ideal`, the score of a text with all words; nearness from the farthest to the nearest, since it
    has none. `dense_weight` (0 to 1) is the share of meaning. What has none
    of the words counts 0 there. What has no vector yet is ranked by its words alone, so that a text is found
    at once and not outranked for being new; so is everything when no candidate has one.
    """
    words = word_shares(candidates, ideal)
    meaning = nearness(candidates)
    weight = _share_of_meaning(candidates, dense_weight)
    scored = [
        c._replace(score=word if c.distance is None else weight * near + (1 - weight) * word)
        for c, near, word in zip(candidates, meaning, words, strict=True)
    ]
    return sorted(scored, key=lambda c: (-c.score, _or_infinity(c.distance), c.chunk))


def order_by_distance(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Nearest first; equal distances, and those without a vector at the end, keep their order."""
    return sorted(candidates, key=lambda candidate: _or_infinity(candidate.distance))


def _share_of_meaning(candidates: Sequence[Candidate], dense_weight: float) -> float:
    return 1.0 if all(candidate.word_score is None for candidate in candidates) else dense_weight


def word_shares(candidates: Sequence[Candidate], ideal: float) -> list[float]:
    """The word scores from 0 to 1; 0 for what has none of the words."""
    values = [candidate.word_score for candidate in candidates]
    best = max([value for value in values if value is not None], default=0.0)
    scale = max(best, LEAST_OF_IDEAL * ideal)
    # Where even the best is 0, being found still counts.
    return [0.0 if v is None else max(v, 0.0) / scale if scale > 0 else 1.0 for v in values]


def nearness(candidates: Sequence[Candidate]) -> list[float]:
    """1 for the nearest, 0 for the farthest and for what has no vector."""
    values = [
        None if c.distance is None else 1 - c.distance - (CUE_DISCOUNT if c.by_cue else 0.0)
        for c in candidates
    ]
    present = [value for value in values if value is not None]
    if not present:
        return [0.0] * len(values)
    least, span = min(present), max(present) - min(present)
    # Equal values carry no order, but being found still counts.
    return [0.0 if v is None else (v - least) / span if span else 1.0 for v in values]


def _or_infinity(distance: float | None) -> float:
    return math.inf if distance is None else distance
