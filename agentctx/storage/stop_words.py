"""Words that indicate no topic, in the language of a question."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple
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


class Language(NamedTuple):
    """The stop words of a language, and those that show that a question is in it."""

    words: frozenset[str]
    telling: frozenset[str]


def stop_words_of(question: str) -> frozenset[str]:
    """Return the English stop words, and those of the language of the question.

    Words are in lower case, with and without accents.
    """
    words = frozenset(_WORD.findall(normalize("NFC", question).lower()))
    shown = [(len(words & language.telling), language) for language in _languages()]
    most = max(count for count, _ in shown)
    candidates = [language.words for count, language in shown if count == most]
    theirs = frozenset[str]().union(*candidates)
    if most <= len((words & STOP_WORDS) - theirs):
        return STOP_WORDS
    return STOP_WORDS | theirs


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


@cache
def _languages() -> tuple[Language, ...]:
    return tuple(_language(words) for name, words in _lists().items() if name != _GRAMMAR)


@cache
def _grammar() -> frozenset[str]:
    """Return every pair of characters of the Chinese, Japanese and Korean phrases."""
    phrases = _lists()[_GRAMMAR]
    return frozenset(phrase[at : at + 2] for phrase in phrases for at in range(max(len(phrase) - 1, 1)))


def _language(marked: list[str]) -> Language:
    telling = [word for word in marked if not word.endswith("?")]
    words = [word.rstrip("?") for word in marked]
    return Language(frozenset(_spellings(words)), frozenset(telling) - STOP_WORDS)


def _spellings(words: list[str]) -> Iterator[str]:
    """Yield each word with and without accents. Umlauts stay: `Ware` is a topic, `wäre` is not."""
    for word in words:
        yield word
        if _UMLAUTS.isdisjoint(word):
            yield "".join(char for char in normalize("NFKD", word) if not combining(char))
