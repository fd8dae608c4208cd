"""Estimate the probability that a learning's error pattern describes the output of a failed command. No I/O.

What the error means decides, not which program ran: the words of the pattern, their order, and the names,
codes and numbers in it. docs/relevance.md names the data on which the weights were fitted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from agentctx.service.rag.concern import Rarity, scaled_idf
from agentctx.service.rag.relevance import probability
from agentctx.service.rag.word_match import stem_of
from agentctx.storage.stop_words import STOP_WORDS

MAX_QUERY_WORDS: Final = 36
"""How many words of an output are searched for: few enough that it counts as one question."""
_WORD = re.compile(r"[A-Za-z0-9_]+")
_ALTERNATIVE = re.compile(r"\s[/|]\s|;|\.\.\.|\u2026|\n|,?\s+or\s+(?=it\b|[a-z]+ [a-z]+)")
_QUOTED = re.compile(r"(?<!\w)(['\"`])([^'\"`\s]{2,40})\1")
_NUMBER = re.compile(r"(?<![\w.])\d{3,}(?![\w.])")
_IDENTIFIER = re.compile(
    r"\b(?:[A-Za-z]+[a-z][A-Z]\w*|\w*[A-Za-z]_\w+|[A-Z]+\d{2,}\w*|[a-z]\w+\.[a-z_]{3,}\w*)\b"
)
_TELLING = re.compile(
    r"error|fail|fatal|exception|not found|no such|denied|cannot|can't|refused|invalid|missing|unable"
    r"|timed? ?out|[A-Z]\d{3,}",
    re.IGNORECASE,
)
_USUAL: Final = frozenset(
    map(
        stem_of,
        [
            "error",
            "errors",
            "failed",
            "fail",
            "failure",
            "fatal",
            "exception",
            "warning",
            "could",
            "cannot",
            "unable",
        ],
    )
)
_NEGATIONS: Final = frozenset({"no", "not"})
_USUAL_WEIGHT: Final = 0.3
_WINDOW: Final = 3
"""How many lines one message may span."""
_ENOUGH: Final = 5.0
_UNKNOWN: Final = 0.5
"""Evidence where a pattern has no such names."""


class ErrorEvidence(NamedTuple):
    """What speaks for an error pattern, each 0 to 1."""

    words: float
    order: float
    """Share of the pairs of words that follow each other in the output, too."""
    mass: float
    quoted: float
    number: float
    identifier: float


WEIGHTS = ErrorEvidence(words=5.2, order=2.7, mass=1.6, quoted=4.0, number=1.8, identifier=2.2)
CONSTANT = -10.0


@dataclass(frozen=True, slots=True)
class FailedOutput:
    """The output of a failed command."""

    text: str
    windows: tuple[frozenset[str], ...]
    """The words of each line and those after it."""
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, text: str) -> FailedOutput:
        lines = [words for line in text.splitlines() if (words := _words(line))]
        windows = (frozenset().union(*lines[at : at + _WINDOW]) for at in range(len(lines)))
        return cls(text.lower(), tuple(windows), frozenset(pair for line in lines for pair in pairwise(line)))

    @property
    def query(self) -> str:
        """The words to search for: those of the last lines that sound like an error, on one line."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        telling = [line for line in lines if _TELLING.search(line)] or lines
        words: dict[str, None] = {}
        for line in reversed(telling):
            words |= dict.fromkeys(_WORD.findall(line))
        return " ".join(list(words)[:MAX_QUERY_WORDS])


def fits(pattern: str, output: FailedOutput, rarity: Rarity) -> float:
    """Return the probability, 0 to 1, that the pattern describes the output."""
    found = _identifiers(pattern)
    seen = max(_compared(part, output, rarity) for part in _alternatives(pattern))
    seen = seen._replace(
        quoted=_any_in(output.text, [match[1] for match in _QUOTED.findall(pattern)]),
        number=_any_in(output.text, _NUMBER.findall(pattern)),
        identifier=_any_in(output.text, found),
    )
    return probability(sum(weight * value for weight, value in zip(WEIGHTS, seen, strict=True)) + CONSTANT)


def rarity_of_errors(patterns: Iterable[str]) -> dict[str, float]:
    """Return the idf of the words of these patterns, scaled to 0 to 1; words of any error weigh less."""
    idf = scaled_idf([frozenset(_words(pattern)) for pattern in patterns])
    return {word: value * (_USUAL_WEIGHT if _is_usual(word) else 1.0) for word, value in idf.items()}


def _compared(pattern: str, output: FailedOutput, rarity: Rarity) -> ErrorEvidence:
    words = _words(pattern)
    weights = {word: rarity.get(word, 1.0) for word in words}
    total = sum(weights[word] for word in words)
    best = max(output.windows, key=lambda window: _sum(words, weights, window), default=frozenset())
    order = list(pairwise(words))
    kept = sum(weights[a] + weights[b] for a, b in order if (a, b) in output.pairs)
    every = sum(weights[a] + weights[b] for a, b in order)
    mass = sum(weight for word, weight in weights.items() if word in best)
    share = _sum(words, weights, best) / total if total else 0.0
    return ErrorEvidence(share, kept / every if every else 0.0, min(1.0, mass / _ENOUGH), 0.0, 0.0, 0.0)


def _sum(words: Sequence[str], weights: Rarity, window: Collection[str]) -> float:
    return sum(weights[word] for word in words if word in window)


def _alternatives(pattern: str) -> list[str]:
    parts = [part for part in _ALTERNATIVE.split(pattern) if len(_words(part)) > 1 or _identifiers(part)]
    return parts or [pattern]


def _any_in(text: str, names: Sequence[str]) -> float:
    if not names:
        return _UNKNOWN
    return float(any(re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", text) for name in names))


def _identifiers(text: str) -> list[str]:
    return _IDENTIFIER.findall(text)


def _words(text: str) -> list[str]:
    return [stem_of(word.lower()) for word in _WORD.findall(text)]


def _is_usual(word: str) -> bool:
    return word in _USUAL or (word in STOP_WORDS and word not in _NEGATIONS)
