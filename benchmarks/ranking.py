"""How good a ranking is, with relevance that is yes or no. `ranked` is best first and has no repeats."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from math import log2


@dataclass(frozen=True, slots=True)
class Quality:
    """Of one question, or the mean of many."""

    recall_1: float
    recall_5: float
    recall_10: float
    mrr_10: float
    ndcg_10: float


def recall(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """The share of the relevant that is among the first `k`."""
    return len(set(ranked[:k]) & set(relevant)) / len(set(relevant))


def reciprocal_rank(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """1 / rank of the first relevant one among the first `k`; 0 when there is none."""
    return next((1 / rank for rank, found in enumerate(ranked[:k], 1) if found in relevant), 0.0)


def ndcg(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """The discounted gain of the first `k` against that of the best ranking there could be."""
    gain = sum(1 / log2(rank + 1) for rank, found in enumerate(ranked[:k], 1) if found in relevant)
    best = sum(1 / log2(rank + 1) for rank in range(1, min(k, len(set(relevant))) + 1))
    return gain / best


def quality(ranked: Sequence[str], relevant: Collection[str]) -> Quality:
    return Quality(
        recall_1=recall(ranked, relevant, 1),
        recall_5=recall(ranked, relevant, 5),
        recall_10=recall(ranked, relevant, 10),
        mrr_10=reciprocal_rank(ranked, relevant, 10),
        ndcg_10=ndcg(ranked, relevant, 10),
    )


def mean_quality(qualities: Sequence[Quality]) -> Quality:
    """Each measure averaged over the questions; there must be one at least."""
    names = [field.name for field in fields(Quality)]
    return Quality(**{name: sum(getattr(q, name) for q in qualities) / len(qualities) for name in names})
