"""How the forms of a question's words begin, by Snowball's stemmers. No I/O.

FTS5 stems English only. Texts are indexed as they are, and a question asks for every word that begins like
one of its own: no one has to know a text's language, and no index is rebuilt for a new stemmer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final, TypeAlias

from agentctx.storage.stop_words import STOP_WORDS, languages_of

Form: TypeAlias = tuple[str, ...]
"""Beginnings of words: a text has the form if it has a word with each of them."""

MAX_WORDS: Final = 32
"""How many words of a question are stemmed: Snowball takes up to .2 ms each."""
SHORTEST: Final = 3
"""Letters of a beginning."""
SHORTEST_PART: Final = 4
"""Letters of the first part of a compound: with three, `Verbindung` would be `ver` and `Bindung`."""
_COMPOUNDING: Final = frozenset({"german", "dutch", "swedish"})
_STEMMED: Final = _COMPOUNDING | {
    *("spanish", "french", "portuguese", "italian"),
    *("polish", "czech", "russian", "ukrainian", "serbian", "turkish"),
}
_LETTERS: Final = {
    "german": "äöüß",
    "polish": "ąęłńśźż",
    "czech": "řůě",
    "serbian": "đć",
    "turkish": "ğışöü",
    "ukrainian": "іїєґ",
    "russian": "абвгдежзийклмнопрстуфхцчшщъыьэюя",
}
"""Letters that show the language of a question without stop words."""
# Snowball has no Ukrainian; its endings are Russian ones in other letters.
_AS_RUSSIAN: Final = str.maketrans("\u0456\u0457\u0454\u0491", "\u0438\u0438\u0435\u0433")
_UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
_LINKING: Final = re.compile(r"(?<=...)(?:e?s|e?n)$")
"""What German puts between the parts of a compound."""


def inflected(question: str) -> Sequence[str]:
    """Return the languages of a question whose words are stemmed; none for English."""
    return sorted((languages_of(question) or _languages_by_letters(question)) & _STEMMED)


def forms(word: str, languages: Iterable[str]) -> tuple[Form, ...]:
    """Return the forms of a word in lower case; none if it is short, not of letters, or there is no language.

    `häusern` has the form `häu`, `serwerów` has `serwer`. A compound has one for each place where it may be
    divided, with both parts: `datenbankverbindung` has `(datenbank, verbind)`.
    """
    if not word.isalpha() or len(word) <= SHORTEST:
        return ()
    return tuple(dict.fromkeys(form for language in languages for form in _spelled(word, language)))


def _spelled(word: str, language: str) -> Iterator[Form]:
    """Yield the forms in each spelling: German umlauts are also written `ae`, `oe` and `ue`."""
    yield from (own := list(_forms(word, language)))
    if language == "german":
        yield from _forms(word.replace("ae", "ä").replace("oe", "ö").replace("ue", "ü"), language)
        yield from (tuple(part.translate(_UMLAUTS) for part in form) for form in own)


def _forms(word: str, language: str) -> Iterator[Form]:
    stem = _stem(word, language)
    same = takewhile(lambda letters: letters[0] == letters[1], zip(_plain(word), _plain(stem), strict=False))
    beginning = word[: sum(1 for _ in same)]
    if len(beginning) < SHORTEST:
        return
    yield (beginning,)
    if language in _COMPOUNDING:
        for at in range(SHORTEST_PART, len(beginning) - SHORTEST + 1):
            yield _LINKING.sub("", beginning[:at]), beginning[at:]


def _stem(word: str, language: str) -> str:
    import snowballstemmer

    if language == "ukrainian":
        language, word = "russian", word.translate(_AS_RUSSIAN)
    # Made anew, since one keeps its word: threads may not share it.
    stem: str = snowballstemmer.stemmer(language).stemWord(word)
    return stem


def _plain(word: str) -> str:
    """Return the letters without accents, each at its place."""
    return "".join(unicodedata.normalize("NFD", letter)[0] for letter in word.translate(_AS_RUSSIAN))


def _languages_by_letters(question: str) -> frozenset[str]:
    letters = frozenset(unicodedata.normalize("NFC", question).lower())
    if not STOP_WORDS.isdisjoint(question.lower().split()):
        return frozenset()
    shown = {name: len(letters.intersection(own)) for name, own in _LETTERS.items()}
    if shown["ukrainian"]:  # shares most letters with Russian
        return frozenset({"ukrainian"})
    most = max(shown.values())
    return frozenset(name for name, count in shown.items() if 0 < count == most)
