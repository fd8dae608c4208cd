"""Count the words of a question that occur in a text: evidence without an index or a model. No I/O."""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from agentctx.service.rag.budget import DENSE_CHARACTERS
from agentctx.storage.inflection import SHORTEST, Form
from agentctx.storage.search import TermCounts
from agentctx.storage.stop_words import stop_words_of
from agentctx.storage.words import named_symbols, parts_of_words, question_terms

# Indic and other vowel signs are no letters to `\w`, but belong to their words.
_SIGNS = "\u0900-\u109f\u1780-\u17d3"
_WORD = re.compile(rf"(?:[^\W_]|[{_SIGNS}])+")
_IN_WORD = re.compile(rf"[^\W_]|[{_SIGNS}]")
_DENSE = re.compile(f"[{DENSE_CHARACTERS}]")
# Suffixes are stripped one after another. At least three letters are kept, so that short words stay distinct.
_SUFFIXES = tuple(re.compile(rf"(?<=...)(?:{suffix})$") for suffix in ("s", "ation|ing|ed|ly", "[eiy]+"))


MAX_ENDING = 4
"""Letters that may follow a beginning of `SHORTEST` letters: `baz` begins `bazami`, not `bazarowy`."""
ENOUGH_WORDS = 16
"""Number of matched words that counts as full coverage of a long question."""


class WordMatch(NamedTuple):
    """How many of a question's `total` words a text has; the total is 0 for a question without words."""

    matched: int
    total: int

    @property
    def coverage(self) -> float:
        """The share of the words that matched, 0 to 1."""
        return min(1.0, self.matched / min(self.total, ENOUGH_WORDS)) if self.total else 0.0


class QuestionWords:
    """The distinct words of a question, without English stop words unless it has no others.

    Two words match if their approximate stems are equal, ignoring case, accents and common English endings.
    Chinese, Japanese and Korean text is compared by pairs of characters, a word of another language by its
    forms.
    """

    def __init__(self, question: str) -> None:
        terms = question_terms(question)
        self._terms = {term.text: self._words_of(folded(term.text)) for term in terms}
        self._forms = {
            stem_of(folded(term.text)): [tuple(map(folded, form)) for form in term.forms]
            for term in terms
            if term.forms
        }
        self._has_symbols = not _WORD.search(question)
        every = {word for words in self._terms.values() for word in words}
        self._pairs = {word for word in every if _DENSE.search(word)}
        words = every - self._pairs
        self._stems = _stems(words - stop_words_of(question) or words)
        self._is_spelled = not any(term.forms or term.prefix for term in terms)
        self._parts = {stem_of(word): _stems(set(parts)) for word, parts in parts_of_words(question).items()}

    @property
    def spellings(self) -> Mapping[str, Sequence[str]] | None:
        """The words by stem; None if forms or prefixes of longer words count."""
        if not self._is_spelled:
            return None
        spelled: dict[str, list[str]] = {pair: [pair] for pair in self._pairs}
        for word in {word for words in self._terms.values() for word in words - self._pairs}:
            if (stem := stem_of(word)) in self._stems:
                spelled.setdefault(stem, []).append(word)
        return spelled

    @staticmethod
    def _words_of(term: str) -> set[str]:
        return {term} if _DENSE.search(term) else set(_WORD.findall(term))

    def found(self, texts: Sequence[str]) -> frozenset[str]:
        """Return the words that occur in any of the texts."""
        return self.matches_in_each([texts])[0]

    def matches_in_each(self, passages: Sequence[Sequence[str]]) -> list[frozenset[str]]:
        """Return, for each passage, the words that occur in any of its texts."""
        joined_texts = ["\n".join(texts) for texts in passages]
        named = map(named_symbols, joined_texts) if self._has_symbols else joined_texts
        plain = [folded(text) for text in named]
        matches = [{pair for pair in self._pairs if pair in text} if self._pairs else set() for text in plain]
        # One search over the joined passages costs less than one search per passage.
        joined, starts = "\n".join(plain), list(accumulate((len(text) + 1 for text in plain), initial=0))
        stems: dict[str, str] = {}
        for wanted in self._stems:
            for at, word in _words_from(wanted, joined):
                if (stems.get(word) or stems.setdefault(word, stem_of(word))) == wanted:
                    # Whoever has `getUserName` has its parts.
                    matches[bisect_right(starts, at) - 1] |= {wanted, *self._parts.get(wanted, ())}
        for wanted, forms in self._forms.items():
            for passage in _with_a_form(forms, joined, starts):
                matches[passage].add(wanted)
        return [frozenset(words & (self._stems | self._pairs)) for words in matches]

    def match(self, texts: Sequence[str]) -> WordMatch:
        """Count the words that occur in any of the texts."""
        return self.count(self.found(texts))

    def count(self, found: frozenset[str]) -> WordMatch:
        """Return the match for words already found."""
        return WordMatch(len(found), len(self._stems) + len(self._pairs))

    def rarity(self, counts: TermCounts) -> dict[str, float]:
        """Return the idf of each word; rarer words score higher. A word of several terms gets the lowest."""
        rarity: dict[str, float] = {}
        for term, words in self._terms.items():
            count = counts.counts.get(term, 0)
            idf = math.log(1 + (max(counts.chunks - count, 0) + 0.5) / (count + 0.5))
            for word in (words & self._pairs) | (_stems(words - self._pairs) & self._stems):
                rarity[word] = min(idf, rarity.get(word, idf))
        return rarity


def _with_a_form(forms: Sequence[Form], joined: str, starts: Sequence[int]) -> set[int]:
    """Return the passages that have one of the forms."""
    found: set[int] = set()
    for form in forms:
        of_each = (
            {bisect_right(starts, at) - 1 for at, word in _words_from(part, joined) if _is_form(word, part)}
            for part in form
        )
        found |= set.intersection(*of_each)
    return found


def _is_form(word: str, beginning: str) -> bool:
    """Return whether a word may be a form with this beginning: after a short one, little follows."""
    return len(beginning) > SHORTEST or len(word) - len(beginning) <= MAX_ENDING


def _words_from(beginning: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield the words of a text that start with `beginning`, such as a stem, each with its position."""
    at = text.find(beginning)
    while at >= 0:
        if not (at and _IN_WORD.match(text, at - 1)) and (word := _WORD.match(text, at)):
            yield at, word[0]
        at = text.find(beginning, at + 1)


def _stems(words: set[str]) -> set[str]:
    return {stem_of(word) for word in words}


def stem_of(word: str) -> str:
    """Return the approximate stem of an English word in lower case, the same for its common forms."""
    for suffix in _SUFFIXES:
        word = suffix.sub("", word)
    return word


def folded(text: str) -> str:
    """Return a text without case and accents."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text).casefold()
    # Decomposed Korean would no longer match as pairs of syllables.
    return unicodedata.normalize("NFKC", "".join(c for c in plain if not unicodedata.combining(c)))
