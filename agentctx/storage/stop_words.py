"""Words that indicate no topic, in the language of a question."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from unicodedata import combining, normalize

STOP_WORDS = frozenset(
    """
    a about above after again against all am an and any are as at be because been before being below between
    both but by can could did do does doing down during each few for from further had has have having he
    her here hers herself him himself his how i if in into is it its itself just me might more most must my
    myself nor not of off on once only or other our ours ourselves out over own please same shall she should
    so some such than that the their theirs them themselves then there these they this those through to too
    under until up upon us very was we were what when where which while who whom whose why will with would
    you your yours yourself yourselves
    """.split()  # noqa: SIM905 - a literal would take one line per word
)
"""English words that do not indicate a topic."""

# Words of letters, with the vowel signs of Indic scripts.
_WORD = re.compile(r"(?:[^\W\d_]|[\u0300-\u036f\u064b-\u065f\u0900-\u109f])+")
_GRAMMAR = "grammar"
_UMLAUTS = frozenset("äöüå")
_KANA_PARTICLE = "はがをにのでともへや"


def stop_words_of(question: str) -> frozenset[str]:
    """Return the English stop words, and those of the language of the question.

    Words are in lower case, with and without accents.
    """
    return STOP_WORDS | _of_languages(languages_of(question))


def languages_of(question: str) -> frozenset[str]:
    """Return the languages whose stop words a question has most of; none if it has as many English ones.

    If all of its stop words are English words as well, at least two must be theirs, with their accents:
    `wo steht die Nummer`, but not `CI runs on`, though Czech has `či` and `on`.
    """
    words = frozenset(_WORD.findall(normalize("NFC", question).lower()))
    if shown := Counter(language for word in words for language in _languages_shown().get(word, ())):
        most, languages = _most(shown)
        return languages if most > len((words & STOP_WORDS) - _of_languages(languages)) else frozenset()
    longer = (word for word in words if len(word) > 1)
    most, languages = _most(Counter(name for word in longer for name in _listing().get(word, ())))
    return languages if most > max(1, len(words & STOP_WORDS)) else frozenset()


def _most(counts: Mapping[str, int]) -> tuple[int, frozenset[str]]:
    most = max(counts.values(), default=0)
    return most, frozenset(name for name, count in counts.items() if count == most)


def foreign_stop_words() -> Collection[str]:
    """Return the stop words of other languages that are not English words."""
    return _languages_shown().keys()


def is_grammar(pair: str) -> bool:
    """Return whether a pair of Chinese, Japanese or Korean characters indicates no topic."""
    if pair in _grammar():
        return True
    first, second = pair[0], pair[-1]
    return (second in _KANA_PARTICLE and not _is_hiragana(first)) or (
        first in _KANA_PARTICLE and not _is_hiragana(second)
    )


def _is_hiragana(char: str) -> bool:
    return "\u3041" <= char <= "\u309f"


@cache
def _lists() -> Mapping[str, list[str]]:
    text = files("agentctx.storage").joinpath("stop_words.txt").read_text(encoding="utf-8")
    lists: dict[str, list[str]] = {}
    for line in text.splitlines():
        if re.fullmatch("[a-z]+", line):
            words = lists[line] = []
        elif not line.startswith("#"):
            words += line.split()
    return lists


def _languages() -> Collection[str]:
    return _lists().keys() - {_GRAMMAR}


@cache
def _languages_shown() -> Mapping[str, Sequence[str]]:
    """Return, for each stop word that no English word is spelled like, the languages that it shows."""
    shown: dict[str, list[str]] = {}
    for name, words in _lists().items():
        for word in set(words):
            if name != _GRAMMAR and not word.endswith("?") and word not in STOP_WORDS:
                shown.setdefault(word, []).append(name)
    return shown


@cache
def _listing() -> Mapping[str, Sequence[str]]:
    """Return, for each stop word, the languages that list it."""
    listing: dict[str, list[str]] = {}
    for name in _languages():
        for word in _as_listed(name):
            listing.setdefault(word, []).append(name)
    return listing


@cache
def _as_listed(language: str) -> frozenset[str]:
    return frozenset(word.rstrip("?") for word in _lists()[language])


@cache
def _of_languages(names: frozenset[str]) -> frozenset[str]:
    words = frozenset[str]().union(*map(_as_listed, names))
    return frozenset(spelling for word in words for spelling in _spellings(word))


@cache
def _grammar() -> frozenset[str]:
    """Return every pair of characters of the Chinese, Japanese and Korean phrases."""
    phrases = _lists()[_GRAMMAR]
    return frozenset(phrase[at : at + 2] for phrase in phrases for at in range(max(len(phrase) - 1, 1)))


def _spellings(word: str) -> Iterator[str]:
    """Yield a word with and without accents. Umlauts stay: `Ware` is a topic, `wäre` is not."""
    yield word
    if _UMLAUTS.isdisjoint(word):
        yield "".join(char for char in normalize("NFKD", word) if not combining(char))
