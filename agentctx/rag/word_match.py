"""How many of a question's words a text has: evidence that needs neither an index nor a model. No I/O."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from agentctx.rag.budget import DENSE_CHARACTERS
from agentctx.storage.words import STOP_WORDS, question_terms

_WORD = re.compile(r"[^\W_]+")
_DENSE = re.compile(f"[{DENSE_CHARACTERS}]")
_HEAD = 3
# Taken off one after the other; `_HEAD` letters are left at least, so that short words stay apart.
_SUFFIXES = tuple(re.compile(rf"(?<=...)(?:{suffix})$") for suffix in ("s", "ation|ing|ed|ly", "[eiy]+"))


ENOUGH_WORDS = 16
"""A text that has so many words of a long question has all that can be asked for."""


class WordMatch(NamedTuple):
    """How many of the question's words a text has. `wanted` is 0 for a question without words."""

    matched: int
    wanted: int

    @property
    def coverage(self) -> float:
        """0 to 1."""
        return min(1.0, self.matched / min(self.wanted, ENOUGH_WORDS)) if self.wanted else 0.0


class QuestionWords:
    """The distinct words of a question, without English stop words unless there are no others.

    Words are equal when their stems are, roughly: case, accents and common English endings do not count.
    Chinese, Japanese and Korean is compared by pairs of characters.
    """

    def __init__(self, question: str) -> None:
        terms = [_folded(term.text) for term in question_terms(question)]
        self._pairs = {term for term in terms if _DENSE.search(term)}
        words = {word for term in terms if term not in self._pairs for word in _WORD.findall(term)}
        self._stems = _stems(words - STOP_WORDS or words)
        self._beginnings = [_beginning_with(head) for head in sorted({stem[:_HEAD] for stem in self._stems})]

    def match(self, texts: Sequence[str]) -> WordMatch:
        """How many of them the texts have together."""
        folded = _folded("\n".join(texts))
        # A stem begins as its word does, and most words of a text begin as none of the question's.
        alike = {word for beginning in self._beginnings for word in beginning.findall(folded)}
        matched = len(self._stems & _stems(alike)) + sum(pair in folded for pair in self._pairs)
        return WordMatch(matched, len(self._stems) + len(self._pairs))


@lru_cache(maxsize=1_024)
def _beginning_with(head: str) -> re.Pattern[str]:
    """The words that begin so. The letters come first in the pattern, which makes it a search for them."""
    return re.compile(rf"{head}(?<![^\W_]{head})[^\W_]*")


def _stems(words: set[str]) -> set[str]:
    for suffix in _SUFFIXES:
        words = {suffix.sub("", word) for word in words}
    return words


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text).casefold()
    # Decomposed Korean would be no pair of syllables any more.
    return unicodedata.normalize("NFKC", "".join(c for c in plain if not unicodedata.combining(c)))
