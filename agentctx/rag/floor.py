"""What is not close enough to a question is not injected. No I/O.

Distances of different models do not compare, so a floor is measured for a model (`python -m benchmarks
injection_floor`). Words count too: of two passages at the same distance, the one that has the question's
words is far more often the answer. So a passage may be at `max_distance` when it has all of them, and must be
nearer by `words_worth` when it has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from agentctx.rag.word_match import WordMatch

LEAST_WORDS = 3
LEAST_COVERAGE = 1 / 3
"""A passage without a distance needs so many of the question's words and such a share, or all of two."""


@dataclass(frozen=True, slots=True)
class Floor:
    """`max_distance` is cosine, 0 to 2."""

    max_distance: float
    words_worth: float = 0.0

    def passes(self, distance: float | None, words: WordMatch) -> bool:
        """Whether a passage may be injected. Without a distance (no vector yet, no model) words decide."""
        if distance is None:
            return _has_enough(words)
        return distance <= self.farthest(words)

    def farthest(self, words: WordMatch) -> float:
        """How far a passage with so many of the question's words may be."""
        return self.max_distance - self.words_worth * (1 - words.coverage)


def _has_enough(words: WordMatch) -> bool:
    # Not all of one: that is an "ok" or a "continue".
    return (
        words.coverage >= LEAST_COVERAGE
        if words.matched >= LEAST_WORDS
        else words.matched == words.wanted == 2
    )


NO_DISTANCE = Floor(2.0)
"""Every distance passes; without one, words still decide."""

CALIBRATED: Mapping[str, Floor] = MappingProxyType({"all-MiniLM-L6-v2": Floor(0.9, words_worth=0.5)})
"""By the name of the model."""


def choose_floor(configured: Literal["auto"] | float, model: str | None) -> Floor | None:
    """The floor of injections; None: everything that was found passes.

    `configured` is `injection.max_distance`; 0 switches the floor off. `auto` is the one measured for the
    model; for any other model every distance passes that passes for a search.
    """
    if configured == "auto":
        return CALIBRATED.get(model or "", NO_DISTANCE)
    return Floor(configured) if configured else None
