"""Estimate the probability that a passage answers a question, and gate injection by it. No I/O.

A model's similarities mean little by themselves: a prompt of everyday words is near to everything. So a
prompt's similarity to texts that answer nothing (its background) counts against a passage, and words that it
shares with the passage count for it, more so in a language that the model does not know. docs/relevance.md
names the data sets on which the weights were fitted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from agentctx.service.rag.word_match import WordMatch
from agentctx.storage.vectors import Vectors

Eagerness: TypeAlias = Literal["careful", "normal", "eager"]

MIN_RELEVANCE: Mapping[Eagerness, float] = MappingProxyType({"careful": 0.3, "normal": 0.2, "eager": 0.1})
"""Relevance required of a question's best passage in a memory of `USUAL_SIZE` entries."""
USUAL_SIZE = 35
GROWTH = 0.52
"""Growth of the gate's log odds with the logarithm of the number of memories, as chance hits grow."""
SURENESS, DOUBT = 0.65, -0.5
"""Fitted on worlds of memories and prompts, half of them with twins and superseded facts."""
FURTHER = 0.15
"""Relevance required of passages besides the best, in a memory of any size."""
MAX_BEHIND = 2.5
"""How far the log odds of a further passage may be below those of the best for the same query, in a
memory of up to `USUAL_SIZE` entries."""
NEAREST = 10
"""Number of nearest background texts that a prompt is compared with."""
MIN_WORDS = 3
MIN_COVERAGE, MIN_COVERAGE_OF_TWO = 1 / 3, 1 / 2
"""Share of the question's words that suffices if at least `MIN_WORDS` match, and if two do."""
BY_WORDS, BY_FEW_WORDS = 0.5, 0.05
"""Relevance of a passage rated by words alone: with enough of the question's words, and with too few.

Whatever the gate, the former is injected and the latter never.
"""

_LEAST = 1e-12


class Weights(NamedTuple):
    """Weights for the log odds that a passage answers a question.

    They apply to the cosine similarity of passage and question, the mean similarity of the question to the
    nearest background texts, and the share of the question's words in the passage.
    """

    similarity: float
    background: float
    coverage: float
    constant: float


WEIGHTS = Weights(14.0, -12.0, 2.0, -3.55)
"""Fitted with all-MiniLM-L6-v2; similarities of other models are mapped to its scale first."""
WITH_CUES = Weights(13.0, -2.0, 5.5, -8.07)
"""Weights for entries with cues: by chance, the best of several vectors is nearer and has more words."""

UNFAMILIAR = 0.38
"""Level above which a model hardly tells texts apart, as in a language that it does not know.

English prompts have .15 to .38 with the embedded model, others .35 to .65.
"""
UNFAMILIAR_CONSTANT, UNFAMILIAR_COVERAGE = -14.0, 60.0
"""What is added to the weights for each unit of level above `UNFAMILIAR`: there, words decide."""


class Scale(NamedTuple):
    """Maps a model's similarities to the reference model's: multiply by `factor`, add `offset`."""

    factor: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """A model's parameters for relevance. `background` holds unit vectors, `(texts, dimension)`."""

    scale: Scale
    background: Vectors

    def fits(self, query: Vectors) -> bool:
        """Return whether the question's vector can come from this model."""
        return self.background.shape[1:] == query.shape

    def level(self, query: Vectors) -> float:
        """Return how similar a question is to its nearest background texts."""
        nearest = np.sort(self.background @ query)[-NEAREST:]
        return self.similarity(float(nearest.mean()))

    def similarity(self, cosine: float) -> float:
        """Map the model's cosine similarity to the reference model's scale."""
        return self.scale.factor * cosine + self.scale.offset

    def log_odds(self, distance: float, level: float, words: WordMatch, weights: Weights = WEIGHTS) -> float:
        """Return the log odds that a passage at this cosine distance answers a question of this `level`."""
        beyond = max(0.0, level - UNFAMILIAR)
        return (
            weights.similarity * self.similarity(1 - distance)
            + weights.background * level
            + (weights.coverage + UNFAMILIAR_COVERAGE * beyond) * words.coverage
            + weights.constant
            + UNFAMILIAR_CONSTANT * beyond
        )


def relevance(
    calibration: Calibration | None,
    distance: float | None,
    level: float,
    words: WordMatch,
    *,
    has_cues: bool = False,
) -> float:
    """Return the probability, 0 to 1, that a passage answers a question.

    Without a vector or a calibrated model, words alone decide. With `has_cues`, distance and words are the
    best of text and cues.
    """
    if calibration is None or distance is None:
        return relevance_by_words(words)
    weights = WITH_CUES if has_cues else WEIGHTS
    return probability(calibration.log_odds(distance, level, words, weights))


def relevance_by_words(words: WordMatch, *, leads: bool = False, is_degraded: bool = False) -> float:
    """Return the relevance of a passage without a vector. If it `leads` (`unmeasured`), fewer words
    suffice: a third of the question's; all of them if the answer is degraded, when every passage lacks one.
    """
    least = 1.0 if is_degraded else MIN_COVERAGE
    suffice = has_enough_words(words) or (leads and words.coverage >= least)
    return BY_WORDS if suffice else BY_FEW_WORDS * words.coverage


def has_enough_words(words: WordMatch) -> bool:
    """Return whether words alone suffice. A single word does not."""
    if words.matched >= MIN_WORDS:
        return words.coverage >= MIN_COVERAGE
    return words.matched == MIN_WORDS - 1 and words.coverage >= MIN_COVERAGE_OF_TWO


class Gate(NamedTuple):
    """The relevance required for injection: by the best passage, and by each further one.

    `behind` is how far the log odds of a further one may be below those of the best.
    """

    best: float
    further: float = FURTHER
    behind: float = MAX_BEHIND

    @classmethod
    def of(cls, eagerness: Eagerness, memories: int) -> Gate:
        """Build the gate: more memories give more chance hits, so the best passage needs more relevance, and
        is farther from the others.
        """
        growth = GROWTH * math.log(max(memories, 1) / USUAL_SIZE)
        best = probability(log_odds(MIN_RELEVANCE[eagerness]) + growth)
        return cls(best, behind=MAX_BEHIND + max(growth, 0.0))

    def admits(self, relevances: Sequence[float], behind: Sequence[float]) -> list[bool]:
        """Return which passages pass: none unless the best passes; the others by their own relevance, if
        they are not too far `behind` the best one for the same query.
        """
        best = max(relevances, default=0.0)
        return [
            best >= self.best and (each == best or (each >= self.further and by <= self.behind))
            for each, by in zip(relevances, behind, strict=True)
        ]


def calibrated(relevance: float) -> float:
    """Return the share of right passages among those to which the rules give a relevance.

    In memories with many alike passages, and for questions that nothing answers, the rules are too sure.
    """
    return probability(SURENESS * log_odds(relevance) + DOUBT)


def falling(relevances: Sequence[float]) -> list[float]:
    """Return relevances that never rise: neighbours in the wrong order share their mean.

    A list is ordered by more than relevance, so a passage may be ranked above a likelier one. On average, the
    result is as right as the input (isotonic regression, by pooling adjacent violators).
    """
    pools: list[tuple[float, int]] = []
    for each in relevances:
        mean, size = each, 1
        while pools and pools[-1][0] < mean:
            other, others = pools.pop()
            mean, size = (mean * size + other * others) / (size + others), size + others
        pools.append((mean, size))
    return [mean for mean, size in pools for _ in range(size)]


def probability(odds: float) -> float:
    """Convert log odds to a probability."""
    return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0


def log_odds(p: float) -> float:
    """Convert a probability to log odds, which are finite for 0 and 1 too."""
    return math.log(max(p, _LEAST) / max(1 - p, _LEAST))
