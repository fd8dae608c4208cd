"""Weigh cues: a hit on a cue is evidence for the text to which it leads. No I/O.

An entry with cues has several vectors and more words, so its best hit is better by chance alone. To be fair
to entries without cues, a cue counts slightly less when the pool is chosen, and entries with cues are ranked
by relevance, with weights fitted separately. docs/relevance.md has the figures.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping

from agentctx.service.rag.candidate import Candidate
from agentctx.storage.chunk_texts import cues_of
from agentctx.storage.search import NearestChunk, ResolvedChunk, WordHit

CUE_DISCOUNT = 0.05
"""How much nearer than its text a cue must be to be used instead."""
CUE_WORDS = 0.5
"""Weight of a cue's words, relative to 1 for the words of the text."""


def cues_for(resolved: ResolvedChunk) -> tuple[str, ...]:
    """Return the cues that lead to a chunk: all cues of the entry for its first chunk, none for the rest."""
    return () if resolved.start else cues_of(resolved.entry.attributes)


def word_scores(hits: Iterable[WordHit]) -> list[WordHit]:
    """Return one hit per chunk, adding the scores of its text and its cue, best first."""
    by_chunk: dict[int, WordHit] = {}
    for hit in hits:
        known = by_chunk.get(hit.chunk)
        if known is None and not hit.cue:
            by_chunk[hit.chunk] = hit
            continue
        score = (CUE_WORDS if hit.cue else 1.0) * hit.score + (known.score if known else 0.0)
        by_chunk[hit.chunk] = WordHit(hit.chunk, hit.entry, score, hit.cue or (known or hit).cue)
    return sorted(by_chunk.values(), key=lambda hit: (-hit.score, hit.chunk))


def nearest_of(hits: Iterable[NearestChunk], texts: Mapping[int, float]) -> dict[int, NearestChunk]:
    """Return one hit per chunk, using a cue only if it is nearer than the text by more than `CUE_DISCOUNT`.

    `texts` holds distances of texts that were measured separately.
    """
    by_chunk: dict[int, NearestChunk] = {}
    for hit in hits:
        is_measured = hit.cue and hit.chunk in texts
        of_text = (hit._replace(distance=texts[hit.chunk], cue=0),) if is_measured else ()
        for reading in (hit, *of_text):
            known = by_chunk.get(reading.chunk)
            if known is None or cue_distance(reading) < cue_distance(known):
                by_chunk[reading.chunk] = reading
    return by_chunk


def ranked_by_relevance(candidates: Iterable[Candidate], with_cues: Collection[int]) -> list[Candidate]:
    """Rank each candidate with cues after as many candidates without cues as are more relevant.

    Candidates without cues keep their order, so a memory with few cues is ranked almost as if it had none.
    """
    ranked = list(candidates)
    others = [each for each in ranked if each.chunk not in with_cues]
    relevances = sorted(-each.relevance for each in others)
    cued = sorted((each for each in ranked if each.chunk in with_cues), key=lambda each: -each.relevance)
    ranks = [(float(rank), each) for rank, each in enumerate(others)]
    ranks += [(bisect_left(relevances, -each.relevance) - 0.5, each) for each in cued]
    return [each for _, each in sorted(ranks, key=lambda pair: pair[0])]


def cue_distance(hit: NearestChunk) -> float:
    """Return the distance by which to compare a hit; a cue's includes the discount."""
    return hit.distance + (CUE_DISCOUNT if hit.cue else 0.0)
