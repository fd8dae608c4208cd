"""Score the turns of a conversation in the context of their neighbours. No I/O.

A turn that answers a question often contains none of its words, because they are in the turn before. So the
words and the nearness of neighbours also count for a turn, less so with distance, and a turn with substance
counts more than an acknowledgement. docs/relevance.md names the data sets on which this was measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

Values: TypeAlias = npt.NDArray[np.float64]
"""A value, or a row of values, for each turn of a pool."""

WORDS_OF: Mapping[int, float] = {-1: 0.6, -2: 0.3, 1: 0.4, 2: 0.2}
"""Weight of a neighbour's words in a turn's score, by the neighbour's offset."""
NEARNESS_OF: Mapping[int, float] = {0: 1.0, -1: 0.5, -2: 0.3, 1: 0.3, 2: 0.2}
"""Weight of a neighbour's nearness to the question in a turn's score, by the neighbour's offset."""
K1, B = 0.9, 0.75
"""BM25 parameters: how quickly repetitions of a word saturate, and how much long texts are discounted."""
NEARNESS, SPEAKER, TIME, ASKS, LENGTH = 0.45, 0.35, 0.35, 0.1, 0.7
MIN_SHARE_OF_IDEAL = 0.4
"""The share of the ideal score (a turn with all words of the question) that the best needs to count as 1."""
FULL_LENGTH = 50
"""Number of words at which a turn counts as full length."""

_SPEAKER = re.compile(r"\s{0,4}([^\W\d_][\w .'\u2019-]{0,30}):\s")
_SPEAKER_WITHIN = 40
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_ASKS_WHEN = re.compile(r"\s*when\b|.*\b(?:what|which) (?:date|day|month|year|time)\b|.*\bhow long\b", re.I)
_TIMES = re.compile(
    r"\b(?:yesterday|today|tomorrow|tonight|last|next|ago|recently|since|soon|morning|days?|weeks?|weekend|"
    r"months?|years?|spring|summer|fall|autumn|winter|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|"
    r"april|may|june|july|august|september|october|november|december)\b",
    re.I,
)


class PooledTurn(NamedTuple):
    """A passage and the inputs of its score. `beside` maps offsets to pool positions; None outside sessions.

    `found` holds the words of the question in the passage. `nearness` is 0 to 1 within the pool; `words` is a
    score from 0 to 1 by words alone, for passages outside conversations.
    """

    text: str
    found: frozenset[str]
    nearness: float
    words: float = 0.0
    agent: str = ""
    beside: Mapping[int, int] | None = None


def scores(
    question: str, pool: Sequence[PooledTurn], weights: Mapping[str, float], dense_weight: float
) -> list[float]:
    """Score each passage of the pool, higher is better; scores are comparable only within the pool.

    `weights` are the rarities (idf) of the question's words, `dense_weight` the share of nearness.
    """
    if not pool:
        return []
    lengths = [turn.text.count(" ") + turn.text.count("\n") + 1 for turn in pool]
    beside = _Beside.of(pool)
    words = _word_scores(pool, np.array(lengths, np.float64), weights, beside).tolist()
    near = (NEARNESS * beside.sums(np.array([turn.nearness for turn in pool]), NEARNESS_OF)).tolist()
    style = _style_scores(question, pool, lengths)
    # Outside conversations, assume full length, and neighbours as near as the passage itself.
    full = NEARNESS * sum(NEARNESS_OF.values())
    by_words, by_nearness = 2 * (1 - dense_weight), 2 * dense_weight
    return [
        by_words * turn.words + by_nearness * full * turn.nearness + LENGTH
        if turn.beside is None
        else by_words * words[at] + by_nearness * near[at] + style[at]
        for at, turn in enumerate(pool)
    ]


@dataclass(frozen=True, slots=True)
class _Beside:
    """For each offset, the pool position of each turn's neighbour, or -1 if it has none."""

    places: Mapping[int, npt.NDArray[np.intp]]

    @classmethod
    def of(cls, pool: Sequence[PooledTurn]) -> Self:
        places = {offset: [-1] * len(pool) for offset in WORDS_OF}
        for at, turn in enumerate(pool):
            if turn.beside:
                for offset, place in turn.beside.items():
                    places[offset][at] = place
        return cls({offset: np.array(row, np.intp) for offset, row in places.items()})

    def sums(self, values: Values, shares: Mapping[int, float]) -> Values:
        """Return each turn's own value plus the weighted values of its neighbours."""
        own: Values = values * shares.get(0, 1.0)
        padded = np.concatenate([values, np.zeros_like(values[:1])])
        for offset, places in self.places.items():
            own += shares[offset] * padded[places]
        return own


def _word_scores(
    pool: Sequence[PooledTurn], lengths: Values, weights: Mapping[str, float], beside: _Beside
) -> Values:
    """Score the words of each turn and its neighbours by BM25, scaled to at most 1."""
    columns = {word: column for column, word in enumerate(weights)}
    width = len(columns)
    places = [
        row * width + columns[word] for row, turn in enumerate(pool) for word in turn.found if word in columns
    ]
    found = np.zeros(len(pool) * width)
    found[places] = 1.0
    counts = beside.sums(found.reshape(len(pool), width), WORDS_OF)
    spans = beside.sums(lengths, WORDS_OF) / max(lengths.mean() * (1 + sum(WORDS_OF.values())), 1e-9)
    norms = K1 * (1 - B + B * spans)
    rarities = np.array(list(weights.values()), np.float64)
    scores: Values = (counts * (K1 + 1) / (counts + norms[:, np.newaxis])) @ rarities
    scores[[turn.beside is None for turn in pool]] = 0.0
    best = max(float(scores.max()), MIN_SHARE_OF_IDEAL * float(rarities.sum()))
    return scores / best if best else scores


def _style_scores(question: str, pool: Sequence[PooledTurn], lengths: Sequence[int]) -> list[float]:
    """Score the other criteria: the speaker, mentions of time, the length, and not being a question."""
    asked = question.casefold()
    substance = LENGTH * np.minimum(np.log1p(np.array(lengths)) / math.log(FULL_LENGTH), 1.0)
    found: list[float] = substance.tolist()
    for at, turn in enumerate(pool):
        if (speaker := turn.agent or _speaker_of(turn.text)) and speaker.casefold() in asked:
            found[at] += SPEAKER
        if turn.text.rstrip().endswith(_QUESTION_MARKS):
            found[at] -= ASKS
    if _ASKS_WHEN.match(question):
        found = [score + _time_score(turn.text) for score, turn in zip(found, pool, strict=True)]
    return found


def _time_score(text: str) -> float:
    return TIME * min(len(set(map(str.casefold, _TIMES.findall(text)))), 2) / 2


def _speaker_of(text: str) -> str:
    match = ":" in text[:_SPEAKER_WITHIN] and _SPEAKER.match(text)
    return match[1] if match else ""
