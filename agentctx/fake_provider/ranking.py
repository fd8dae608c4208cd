"""Rerank scores from the words that question and document share."""

from __future__ import annotations

import re

import numpy as np

from agentctx.fake_provider.asked import RerankAsked
from agentctx.fake_provider.rows import Row

_RECALL_SHARE = 0.9


def rank(asked: RerankAsked) -> list[Row]:
    """The best documents first, equal ones in the order they came in; scores are 0 to 1."""
    rows = [
        Row(index, np.array([overlap(asked.query, document)], np.float32))
        for index, document in enumerate(asked.documents)
    ]
    return sorted(rows, key=lambda row: -row.score)[: asked.top]


def overlap(query: str, document: str) -> float:
    """Mostly the share of the question's words that the document has; a shorter document wins a tie."""
    wanted, found = _words(query), _words(document)
    shared = len(wanted & found)
    if not shared:
        return 0.0
    return _RECALL_SHARE * shared / len(wanted) + (1 - _RECALL_SHARE) * shared / len(found)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))
