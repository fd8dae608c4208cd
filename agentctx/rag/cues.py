"""What cues count for: a hit on a cue is evidence for the text it leads to. No I/O.

An entry with cues has several vectors and more words, so the best of them are better by chance alone. Entries
without cues keep their places: a cue counts a little less when the pool is chosen, and entries with cues are
placed in it by their relevance, whose weights are fitted apart. docs/relevance.md says how it was measured.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from agentctx.storage.cues import cues_of
from agentctx.storage.records import NearestChunk, ResolvedChunk, WordHit

if TYPE_CHECKING:
    from agentctx.rag.fuse import Candidate

CUE_DISCOUNT = 0.05
"""How much nearer than the text a cue must be to count for more."""
CUE_WORDS = 0.5
"""How much the words of a cue count beside those of the text."""


def cues_for(resolved: ResolvedChunk) -> tuple[str, ...]:
    """The cues that lead to a chunk: all of its entry to the first, none to the others."""
    return () if resolved.start else cues_of(resolved.entry.attributes)


def word_scores(hits: Iterable[WordHit]) -> list[WordHit]:
    """One hit a chunk, the score of its text and that of its cue together, best first."""
    found: dict[int, WordHit] = {}
    for hit in hits:
        score = (CUE_WORDS if hit.by_cue else 1.0) * hit.score
        before = found.get(hit.chunk)
        found[hit.chunk] = hit._replace(score=score + (before.score if before else 0.0))
    return sorted(found.values(), key=lambda hit: (-hit.score, hit.chunk))


def nearest_of(hits: Iterable[NearestChunk], texts: Mapping[int, float]) -> dict[int, NearestChunk]:
    """One hit a chunk: its cue only where that is nearer by more than `CUE_DISCOUNT`.

    `texts` are distances of texts that were measured besides.
    """
    found: dict[int, NearestChunk] = {}
    for hit in hits:
        for each in (hit, *_measured(hit, texts)):
            before = found.get(each.chunk)
            if before is None or counted_distance(each) < counted_distance(before):
                found[each.chunk] = each
    return found


def placed(candidates: Iterable[Candidate], with_cues: Collection[int]) -> list[Candidate]:
    """The candidates, those with cues placed by relevance: each behind as many others as are more relevant.

    The others keep their order, so that a memory where few entries have cues is ranked as if none had.
    """
    ranked = list(candidates)
    others = [each for each in ranked if each.chunk not in with_cues]
    relevances = sorted(-each.relevance for each in others)
    cued = sorted((each for each in ranked if each.chunk in with_cues), key=lambda each: -each.relevance)
    places = [(float(place), each) for place, each in enumerate(others)]
    places += [(bisect_left(relevances, -each.relevance) - 0.5, each) for each in cued]
    return [each for _, each in sorted(places, key=lambda place: place[0])]


def counted_distance(hit: NearestChunk) -> float:
    """The distance that a hit counts with beside others."""
    return hit.distance + (CUE_DISCOUNT if hit.by_cue else 0.0)


def _measured(hit: NearestChunk, texts: Mapping[int, float]) -> list[NearestChunk]:
    if not hit.by_cue or hit.chunk not in texts:
        return []
    return [hit._replace(distance=texts[hit.chunk], by_cue=False)]
