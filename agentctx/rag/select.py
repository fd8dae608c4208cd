"""Which of the ranked candidates become the answer. No I/O."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from agentctx.rag.fuse import Candidate


def select(
    candidates: Sequence[Candidate],
    *,
    limit: int,
    max_per_entry: int,
    max_distance: float = 0.0,
    keep_unmeasured: bool = True,
) -> list[Candidate]:
    """The first `limit` candidates within the floor, in the order given, few of one entry.

    `max_distance` (cosine) is the floor; 0 keeps all. `keep_unmeasured` says whether a candidate without a
    vector passes a floor: it should in a degraded answer, where nothing can be measured, and not where the
    others were. One entry fills at most `max_per_entry` places.
    """
    near = within_floor(candidates, max_distance, keep_unmeasured=keep_unmeasured)
    return shared_out(near, max_per_entry)[:limit]


def within_floor(
    candidates: Sequence[Candidate], max_distance: float, *, keep_unmeasured: bool
) -> list[Candidate]:
    """Those no farther than `max_distance` (cosine); 0 keeps all."""
    return [c for c in candidates if _is_within(c, max_distance, keep_unmeasured=keep_unmeasured)]


def shared_out(candidates: Sequence[Candidate], max_per_entry: int) -> list[Candidate]:
    """The first `max_per_entry` of each entry."""
    taken: Counter[str] = Counter()
    kept: list[Candidate] = []
    for candidate in candidates:
        if taken[candidate.entry] < max_per_entry:
            taken[candidate.entry] += 1
            kept.append(candidate)
    return kept


def distinct_texts(candidates: Sequence[Candidate], texts: Mapping[int, str]) -> list[Candidate]:
    """Without those whose text is wholly contained in an earlier one of the same entry (overlap duplicates).

    `texts` maps chunks to their content; a chunk without one is kept.
    """
    kept: list[Candidate] = []
    shown: defaultdict[str, list[str]] = defaultdict(list)
    for candidate in candidates:
        text = texts.get(candidate.chunk)
        if text is not None:
            if any(text in other for other in shown[candidate.entry]):
                continue
            shown[candidate.entry].append(text)
        kept.append(candidate)
    return kept


def _is_within(candidate: Candidate, max_distance: float, *, keep_unmeasured: bool) -> bool:
    if max_distance <= 0:
        return True
    return keep_unmeasured if candidate.distance is None else candidate.distance <= max_distance
