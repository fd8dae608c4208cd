"""How probable it is that a passage answers a question, and from which probability it is injected. No I/O.

Similarities of a model say little by themselves: a prompt of everyday words is near to everything. So what a
prompt's similarity to texts that answer nothing is (its background) counts against it, and words that it
shares with the passage count for it. docs/relevance.md says on which sets the weights were fitted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from agentctx.embedding_providers.base import Vectors
from agentctx.rag.word_match import WordMatch

Eagerness: TypeAlias = Literal["careful", "normal", "eager"]

LEAST_RELEVANCE: Mapping[Eagerness, float] = MappingProxyType({"careful": 0.3, "normal": 0.2, "eager": 0.1})
"""The relevance that the best passage of a question needs in a memory of `USUAL_SIZE` entries."""
USUAL_SIZE = 35
GROWTH = 0.45
"""How the gate's log odds grow with the logarithm of the number of memories: so do chance hits."""
FURTHER = 0.15
"""The relevance that passages beside the best need, in a memory of any size."""
NEAREST = 10
"""Texts of the background that a prompt is compared with: those nearest to it."""
LEAST_WORDS = 3
LEAST_COVERAGE = 1 / 3
BY_WORDS, BY_FEW_WORDS = 0.5, 0.05
"""Relevance of a passage without a vector that has enough of the question's words, and of another.

The first is injected, the other never, whatever the gate.
"""


class Weights(NamedTuple):
    """Of the log odds that a passage answers a question.

    `similarity` is the cosine similarity of both, `background` the mean similarity of the question to the
    nearest texts of the background, `coverage` the share of its words that the passage has.
    """

    similarity: float
    background: float
    coverage: float
    constant: float


WEIGHTS = Weights(14.0, -6.0, 2.0, -5.25)
"""Fitted with all-MiniLM-L6-v2; the similarities of other models are brought to its scale first."""
WITH_CUES = Weights(13.0, -2.0, 5.5, -8.2)
"""The same for entries with cues: the best of several vectors is nearer, and has more words, by chance."""


class Scale(NamedTuple):
    """How a model's similarities become those of the reference model: `factor` times one, plus `offset`."""

    factor: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """What relevance needs to know of a model. `background` are unit vectors `(texts, dimension)`."""

    scale: Scale
    background: Vectors

    def level(self, query: Vectors) -> float:
        """How near a question is to texts that answer nothing."""
        nearest = np.sort(self.background @ query)[-NEAREST:]
        return self.similarity(float(nearest.mean()))

    def similarity(self, cosine: float) -> float:
        """A cosine similarity of the model as the reference model would have given it."""
        return self.scale.factor * cosine + self.scale.offset

    def log_odds(self, distance: float, level: float, words: WordMatch, weights: Weights = WEIGHTS) -> float:
        """That a passage answers a question of that level. `distance` is cosine, 0 to 2."""
        return (
            weights.similarity * self.similarity(1 - distance)
            + weights.background * level
            + weights.coverage * words.coverage
            + weights.constant
        )


def relevance(
    calibration: Calibration | None,
    distance: float | None,
    level: float,
    words: WordMatch,
    *,
    has_cues: bool = False,
) -> float:
    """The probability from 0 to 1 that a passage answers a question.

    Without a vector, or a model whose similarities are understood, words alone decide. `has_cues`: distance
    and words are those of the best of text and cues.
    """
    if calibration is None or distance is None:
        return BY_WORDS if has_enough_words(words) else BY_FEW_WORDS * words.coverage
    weights = WITH_CUES if has_cues else WEIGHTS
    return probability(calibration.log_odds(distance, level, words, weights))


def has_enough_words(words: WordMatch) -> bool:
    """Whether words alone make it likely: not all of one, that is an "ok" or a "continue"."""
    if words.matched >= LEAST_WORDS:
        return words.coverage >= LEAST_COVERAGE
    return words.matched == words.wanted == 2


class Gate(NamedTuple):
    """The relevance from which passages are injected: that the best needs, and each of the others."""

    best: float
    further: float = FURTHER

    @classmethod
    def of(cls, eagerness: Eagerness, memories: int) -> Gate:
        """Chance hits grow with the number of memories, and so does what the best needs."""
        odds = log_odds(LEAST_RELEVANCE[eagerness]) + GROWTH * math.log(max(memories, 1) / USUAL_SIZE)
        return cls(probability(odds))

    def admits(self, relevances: Sequence[float]) -> list[bool]:
        """Which passages pass: none unless the best does, and the others by their own relevance."""
        best = max(relevances, default=0.0)
        return [best >= self.best and (each == best or each >= self.further) for each in relevances]


def probability(odds: float) -> float:
    """Of log odds."""
    return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0


def log_odds(p: float) -> float:
    """Of a probability between 0 and 1."""
    return math.log(p / (1 - p))
