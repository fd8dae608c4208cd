"""Fuse the results of keyword search and vector search into one ranking. No I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.cues import CUE_DISCOUNT, nearest_of, word_scores
from agentctx.storage.search import NearestChunk, WordHit

DENSE_WEIGHT = 0.5
MIN_SHARE_OF_IDEAL = 0.65
"""The share of the ideal score (a text with all words of the question) that the best needs to count as 1.

In a small memory, the best keyword hit may match one word by chance and must not outvote meaning.
"""


def merge(
    word_hits: Sequence[WordHit], vector_hits: Sequence[NearestChunk], distances: Mapping[int, float]
) -> list[Candidate]:
    """Merge the hits of both searches into one unscored candidate per chunk.

    `distances` maps each text and cue that only the keyword search found to its distance, if it has a vector.
    """
    near = nearest_of(vector_hits, distances)
    measured = {hit.cue or hit.chunk for hit in vector_hits}.union(distances)
    candidates = []
    for chunk, entry, score, cue in word_scores(word_hits):
        hit = near.pop(chunk, None)
        distance, by_cue = (distances.get(chunk), False) if hit is None else (hit.distance, bool(hit.cue))
        is_partial = distance is not None and not measured.issuperset((chunk, cue or chunk))
        candidates.append(Candidate(chunk, entry, score, distance, 0.0, 0.0, False, by_cue, is_partial))
    candidates += [
        Candidate(chunk, entry, None, distance, 0.0, 0.0, False, bool(by_cue))
        for chunk, entry, distance, by_cue in near.values()
    ]
    return candidates


def fuse(
    candidates: Sequence[Candidate], dense_weight: float = DENSE_WEIGHT, ideal: float = 0.0
) -> list[Candidate]:
    """Score the candidates and sort them, best first; ties are sorted by distance, then by chunk.

    Both parts are scaled to 0…1. Word scores are divided by the best, because BM25 has a zero, but at least
    by a share of `ideal`, the score of a text with all words. Nearness is scaled from the farthest to the
    nearest, because it has no zero. `dense_weight` (0 to 1) is the weight of nearness. A candidate with none
    of the words gets 0 for words. A text without a vector is not outranked for being new (`unmeasured`).
    """
    words = word_shares(candidates, ideal)
    meaning = nearness(candidates, words)
    weight = 1.0 if all(c.word_score is None for c in candidates) else dense_weight
    keys = sorted(
        (
            -(weight * near + (1 - weight) * word),
            math.inf if c.distance is None else c.distance,
            c.chunk,
            at,
        )
        for at, (c, near, word) in enumerate(zip(candidates, meaning, words, strict=True))
    )
    return [with_score(candidates[at], -score) for score, _, _, at in keys]


def with_score(candidate: Candidate, score: float) -> Candidate:
    """Return the candidate with this score, not rated yet. `_replace` would take twice as long."""
    c = candidate
    return Candidate(
        c.chunk, c.entry, c.word_score, c.distance, score, by_cue=c.by_cue, is_partial=c.is_partial
    )


def word_shares(candidates: Sequence[Candidate], ideal: float) -> list[float]:
    """Scale the word scores to 0…1; 0 for candidates without any of the words."""
    values = [candidate.word_score for candidate in candidates]
    best = max([value for value in values if value is not None], default=0.0)
    scale = max(best, MIN_SHARE_OF_IDEAL * ideal)
    # If even the best score is 0, having been found still counts.
    return [0.0 if v is None else max(v, 0.0) / scale if scale > 0 else 1.0 for v in values]


def nearness(candidates: Sequence[Candidate], words: Sequence[float]) -> list[float]:
    """Scale nearness: 1 for the nearest candidate, 0 for the farthest.

    Candidates without a vector are as near as their words are good; `words` holds the `word_shares`.
    """
    values = [
        None if c.distance is None else 1 - c.distance - (CUE_DISCOUNT if c.by_cue else 0.0)
        for c in candidates
    ]
    present = [value for value in values if value is not None]
    if not present:
        return list(words)
    minimum, span = min(present), max(present) - min(present)
    # Equal values have no order, but having been found still counts.
    return [
        word if v is None else (v - minimum) / span if span else 1.0
        for v, word in zip(values, words, strict=True)
    ]
