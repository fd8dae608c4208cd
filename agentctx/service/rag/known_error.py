"""Estimate the probability that a learning's error pattern describes the output of a failed command. No I/O.

What the error means decides, not which program ran: the words of the pattern in one line, and the names,
codes and numbers in it. docs/relevance.md names the data on which the weights were fitted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from agentctx.service.rag.concern import Rarity, scaled_idf
from agentctx.service.rag.relevance import probability
from agentctx.service.rag.word_lists import words
from agentctx.service.rag.word_match import stem_of
from agentctx.storage.stop_words import STOP_WORDS

MAX_QUERY_WORDS: Final = 36
"""How many words of an output are searched for: few enough that it counts as one question."""
_WORD = re.compile(r"[A-Za-z0-9_]+")
_ALTERNATIVE = re.compile(r"\s[/|]\s|;|\.\.\.|\u2026|\n|,?\s+or\s+(?=it\b|[a-z]+ [a-z]+)")
_QUOTED = re.compile(r"(?<!\w)(['\"`])([^'\"`\s]{2,40})\1")
_NAME = re.compile(
    r"(?<![\w.])\d{3,}(?![\w.])"
    r"|\b(?:[A-Za-z]+[a-z][A-Z]\w*|\w*[A-Za-z]_\w+|[A-Z]+\d{2,}\w*|[a-z]\w+\.[a-z_]{3,}\w*)\b"
)
"""A number, or an identifier."""
_TELLING = re.compile(
    r"error|fail|fatal|exception|not found|no such|denied|cannot|can't|refused|invalid|missing|unable"
    r"|timed? ?out|[A-Z]\d{3,}",
    re.IGNORECASE,
)
_NEGATIONS: Final = frozenset({"no", "not"})
_USUAL_WEIGHT: Final = 0.3
_NO_NAMES: Final = 0.5
"""Evidence where a pattern has no names."""
OF_WORDS, OF_NAMES, CONSTANT = 11.4, 5.8, -11.1
"""Weights in the log odds: of the share of words in one line, and of a name in the output."""


@dataclass(frozen=True, slots=True)
class FailedOutput:
    """The output of a failed command, in lower case, and the stems of each line."""

    text: str
    lines: tuple[frozenset[str], ...]

    @classmethod
    def of(cls, text: str) -> FailedOutput:
        return cls(text.lower(), tuple(frozenset(_stems(line)) for line in text.splitlines()))

    @property
    def query(self) -> str:
        """The words to search for: the last lines that look like an error, on one line."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        telling = [line for line in lines if _TELLING.search(line)] or lines
        found = dict.fromkeys(word for line in reversed(telling) for word in _WORD.findall(line))
        return " ".join(list(found)[:MAX_QUERY_WORDS])


def fits(pattern: str, output: FailedOutput, rarity: Rarity) -> float:
    """Return the probability, 0 to 1, that one of the pattern's alternatives describes the output."""
    return probability(max(_odds(part, output, rarity) for part in _alternatives(pattern)))


def _odds(part: str, output: FailedOutput, rarity: Rarity) -> float:
    names = [match[2] for match in _QUOTED.finditer(part)] or _NAME.findall(part)
    has_name = any(re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", output.text) for name in names)
    share = _share(_stems(part), output, rarity)
    return OF_WORDS * share + OF_NAMES * (has_name if names else _NO_NAMES) + CONSTANT


def rarity_of_errors(patterns: Iterable[str]) -> Mapping[str, float]:
    """Return the idf of the words of these patterns, scaled to 0 to 1; words of any error weigh less."""
    idf = scaled_idf([frozenset(_stems(pattern)) for pattern in patterns])
    return {word: value * (_USUAL_WEIGHT if word in _usual() else 1.0) for word, value in idf.items()}


def _share(wanted: Sequence[str], output: FailedOutput, rarity: Rarity) -> float:
    """Return the share of the words, by weight, that one line has."""
    weights = [(word, rarity.get(word, 1.0)) for word in wanted]
    total = sum(weight for _, weight in weights)
    best = max(
        (sum(weight for word, weight in weights if word in line) for line in output.lines), default=0.0
    )
    return best / total if total else 0.0


def _alternatives(pattern: str) -> list[str]:
    parts = [part for part in _ALTERNATIVE.split(pattern) if len(_stems(part)) > 1 or _NAME.search(part)]
    return parts or [pattern]


def _stems(text: str) -> list[str]:
    return [stem_of(word.lower()) for word in _WORD.findall(text)]


@cache
def _usual() -> frozenset[str]:
    return STOP_WORDS - _NEGATIONS | frozenset(map(stem_of, words("errors")))
