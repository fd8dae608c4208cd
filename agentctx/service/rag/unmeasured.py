"""Place what has no vector yet: one rule for fusing, ranking, merging, judging and selecting. No I/O.

Such a text counts as near as its words are good (`fuse.nearness`). If no other hit has half as many of the
question's words, weighted by rarity, it *leads*: nothing goes before it, however near, since a save can be
found by its words once it is acknowledged. So does one whose words are in a cue that has no vector yet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentctx.service.rag.candidate import Candidate
from agentctx.wire import Order

SPARE = 10
"""How many texts without a vector are read besides the best candidates."""
MAX_SHARE_OF_OTHERS = 0.5
"""Share of a leader's words that others may have. If they may have more, conversations are ranked worse."""


def leader(candidates: Sequence[Candidate]) -> int | None:
    """Return the chunk that leads among candidates that were read, if one does."""
    first = first_by_words(candidates)
    if first is None:
        return None
    # Chunks of one entry share its key and tags.
    others = (each.rarity for each in _by_words(candidates) if each.entry != first.entry)
    return first.chunk if max(others, default=0.0) < MAX_SHARE_OF_OTHERS * first.rarity else None


def first_by_words(candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the candidate that is first by words if its text has no vector.

    Of equal ones, a measured one is the first, since nothing is missing then. BM25 decides only among texts
    with words of the same rarity (or not read yet), because it prefers a short text with a part of a name.
    """
    first = min(_by_words(candidates), key=_word_rank, default=None)
    return first if first is not None and first.is_unmeasured else None


def worth_reading(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the first by words among the candidates without a vector."""
    return sorted((each for each in _by_words(candidates) if each.is_unmeasured), key=_word_rank)[:SPARE]


def leader_first(ranked: Sequence[Candidate], leads: int | None) -> list[Candidate]:
    """Move the leader to the front, with the best score; the others keep their order."""
    first = next((each for each in ranked if each.chunk == leads), None)
    if first is None:
        return list(ranked)
    best = max(each.score for each in ranked)
    return [first._replace(score=best), *(each for each in ranked if each is not first)]


def order_by_distance(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Sort by distance, nearest first; ties, and candidates without a vector (last), keep their order."""
    return sorted(candidates, key=lambda each: math.inf if each.distance is None else each.distance)


def to_choose_from(ranked: Sequence[Candidate], order: Order) -> list[Candidate]:
    """Order ranked candidates so that any number of the first are right to choose.

    With order "distance", these are the nearest, and in place of one of them what is first by words and has
    no vector.
    """
    if order == "relevance":
        return list(ranked)
    first = first_by_words(ranked)
    return leader_first(order_by_distance(ranked), None if first is None else first.chunk)


def _by_words(candidates: Sequence[Candidate]) -> list[Candidate]:
    return [each for each in candidates if each.word_score is not None]


def _word_rank(candidate: Candidate) -> tuple[float, float, bool, int]:
    score = candidate.word_score or 0.0
    return -candidate.rarity, -score, candidate.is_unmeasured, candidate.chunk
