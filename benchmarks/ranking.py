"""The quality of a ranking with binary relevance. `ranked` is best first, without duplicates."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from math import log2


@dataclass(frozen=True, slots=True)
class Quality:
    """The measures of one question, or the means of several."""

    recall_1: float
    recall_5: float
    recall_10: float
    mrr_10: float
    ndcg_10: float


def recall(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the share of the relevant documents among the first `k`."""
    return len(set(ranked[:k]) & set(relevant)) / len(set(relevant))


def reciprocal_rank(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return 1 / rank of the first relevant document among the first `k`; 0 if there is none."""
    return next((1 / rank for rank, found in enumerate(ranked[:k], 1) if found in relevant), 0.0)


def ndcg(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the discounted gain of the first `k` relative to the best possible ranking."""
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
    """Return each measure averaged over the questions, at least one."""
    names = [field.name for field in fields(Quality)]
    return Quality(**{name: sum(getattr(q, name) for q in qualities) / len(qualities) for name in names})
