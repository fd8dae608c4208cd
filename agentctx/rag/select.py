"""Select the answer from the ranked candidates. No I/O."""

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
    """Return the first `limit` candidates within the distance limit, in order, few per entry.

    `max_distance` is a cosine distance; 0 keeps everything. `keep_unmeasured` keeps candidates without a
    vector: right in a degraded answer, where nothing can be measured, and wrong if the others were
    measured. An entry gets at most `max_per_entry` places.
    """
    near = within_floor(candidates, max_distance, keep_unmeasured=keep_unmeasured)
    return limit_per_entry(near, max_per_entry)[:limit]


def within_floor(
    candidates: Sequence[Candidate], max_distance: float, *, keep_unmeasured: bool
) -> list[Candidate]:
    """Keep the candidates within the cosine distance `max_distance`; 0 keeps all."""
    return [c for c in candidates if _is_within(c, max_distance, keep_unmeasured=keep_unmeasured)]


def limit_per_entry(candidates: Sequence[Candidate], max_per_entry: int) -> list[Candidate]:
    """Keep the first `max_per_entry` candidates of each entry."""
    taken: Counter[str] = Counter()
    kept: list[Candidate] = []
    for candidate in candidates:
        if taken[candidate.entry] < max_per_entry:
            taken[candidate.entry] += 1
            kept.append(candidate)
    return kept


def distinct_texts(candidates: Sequence[Candidate], texts: Mapping[int, str]) -> list[Candidate]:
    """Drop candidates whose text is contained in an earlier candidate of the same entry (overlaps).

    `texts` maps chunks to their content; a chunk without content is kept.
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
