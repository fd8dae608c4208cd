"""Tell which texts say the same, and which is a newer version of another that nobody marked. No I/O.

Texts are compared as sequences of the words that indicate topics. Versions of a fact begin alike, with what
they are about, and end differently, with what holds; texts about twins ("staging is restored …", "production
is restored …") differ where they name their topic.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from agentctx.service.rag.budget import DENSE_CHARACTERS
from agentctx.service.rag.dates import dates_of
from agentctx.service.rag.word_match import stem_of
from agentctx.storage.stop_words import stop_words_of

_NEGATION: Final = re.compile(r"\b(?:not?|never|none|nothing|cannot|without)\b|n['\u2019]t\b", re.IGNORECASE)
_NOT: Final = "not"
# Compiled on first use: 3 ms that the daemon's start does not take.
_WORD: Final = rf"[{DENSE_CHARACTERS}]|[^\W{DENSE_CHARACTERS}]+(?:[-.:/][^\W{DENSE_CHARACTERS}]+)*"
_HAS_DIGIT: Final = re.compile(r"\d")
_NUMBER_WORDS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_DIGITS: Final = {word: str(number) for number, word in enumerate(_NUMBER_WORDS, start=1)}
_FILLERS: Final = frozenset({"now", "longer", "anymore", "currently", "instead", "since", "always"})
_CHANGE: Final = re.compile(
    r"\b(?:now|no longer|not? any ?more|instead|as of|from now on|since|changed?|moved?|switched|renamed"
    r"|replace[sd]|ab sofort|jetzt|nicht mehr|statt|seit|d[ée]sormais|ahora|ya no)\b"
)
"""What a text says of a change."""
ALIKE: Final = 0.75
"""Share of the longer text's words that the shorter one has, in order, if both say the same."""
NEAR: Final = 0.9
"""Share of common phrases at which two texts say the same."""
PHRASE_WORDS: Final = 3
SHARED: Final = 0.6
"""Share of the longer text's words that two versions of a fact have in common; of the shorter one's, if the
newer text speaks of a change."""
BEGINNING: Final = 0.4
"""Share of the shorter text's words with which two versions begin alike."""
SPELLED: Final = 0.4
"""Share of words that must be spelt alike before two texts are compared any further."""
MAX_CHARS: Final = 300
"""A longer text states more than one fact."""


class FactText:
    """A text as a sequence of words that indicate topics."""

    def __init__(self, text: str) -> None:
        said = text.removeprefix("User: ").replace("\n\nAssistant: ", "\n")  # of a captured turn
        self.text = said.casefold()

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The stems, without stop words; a number word is its number, and each negation the same word."""
        text = _NEGATION.sub(f" {_NOT} ", self.text)
        stops = (stop_words_of(self.text) | _FILLERS) - {_NOT}
        said = (word for word in re.findall(_WORD, text) if word not in stops)
        return tuple(_DIGITS.get(word) or stem_of(word) for word in said)

    @cached_property
    def date(self) -> str:
        """The first date in the text with its year, as "2026-11-03" or "2026-11-*"; empty if it has none."""
        return next((date for _, date in dates_of(self.text) if date[0] != "*"), "")

    def repeats(self, other: FactText) -> bool:
        """Return whether two texts say the same: most of the words in order, or nearly all phrases.

        Another number or negation says something else.
        """
        fewer, more = sorted((self._spelled, other._spelled), key=len)
        if len(fewer) < SPELLED * len(more) or len(fewer & more) < SPELLED * len(fewer):
            return False  # settles most pairs
        if self.text.split() == other.text.split():
            return True
        least, most = sorted((self.words, other.words), key=len)
        if len(least) < ALIKE * len(most) or self._particulars != other._particulars:
            return False
        if len(least) >= 3 and _is_within(least, most):
            return True
        both = len(self._phrases & other._phrases)
        return both > 0 and both >= NEAR * len(self._phrases | other._phrases)

    def updates(self, older: FactText) -> bool:
        """Return whether this text states another version of the fact that `older` states."""
        if max(len(self.text), len(older.text)) > MAX_CHARS:
            return False
        if len(self._spelled & older._spelled) < SPELLED * min(len(self._spelled), len(older._spelled)):
            return False  # settles most pairs
        least, most = sorted((len(self.words), len(older.words)))
        if least < 2:
            return False
        common = len(self._distinct & older._distinct)
        if self._speaks_of_change:
            return common >= max(2, SHARED * least)
        pairs = enumerate(zip(self.words, older.words, strict=False))
        begins = next((at for at, (one, another) in pairs if one != another), least)
        return begins >= BEGINNING * least and common >= SHARED * most

    @cached_property
    def _particulars(self) -> list[str]:
        """The numbers and negations."""
        return sorted(word for word in self.words if word == _NOT or _HAS_DIGIT.search(word))

    @cached_property
    def _distinct(self) -> frozenset[str]:
        return frozenset(self.words)

    @cached_property
    def _speaks_of_change(self) -> bool:
        return _CHANGE.search(self.text) is not None

    @cached_property
    def _spelled(self) -> frozenset[str]:
        return frozenset(re.findall(_WORD, self.text))

    @cached_property
    def _phrases(self) -> frozenset[tuple[str, ...]]:
        return frozenset(zip(*(self.words[at:] for at in range(PHRASE_WORDS)), strict=False))


def _is_within(fewer: Sequence[str], more: Sequence[str]) -> bool:
    rest = iter(more)
    return all(word in rest for word in fewer)
