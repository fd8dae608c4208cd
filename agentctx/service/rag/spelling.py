"""Correct misspelled words of a question by the words of the memory. No I/O."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from agentctx.service.rag.word_match import folded, stem_of
from agentctx.storage.stop_words import STOP_WORDS, stop_words_of

LEAST_LETTERS = 5
"""Shorter words are one letter away from too many others."""
SAME_BEGINNING = 2
"""The first letters of a word are seldom mistyped, and other words often differ there."""

_WORD = re.compile(rf"[^\W\d_]{{{LEAST_LETTERS},}}")


def unfamiliar(question: str, known: Collection[str]) -> set[str]:
    """Return the words of a question that may be misspelled; `known` are the stems that the memory has."""
    return {word for word in _words(question) - stop_words_of(question) if stem_of(folded(word)) not in known}


def corrected(question: str, unknown: Collection[str], texts: Sequence[str]) -> str | None:
    """Return the question with words of the texts for its misspelled ones; None if there are none.

    An unknown word is misspelled if the texts have exactly one word that it would be without its typing
    error.
    """
    joined = "\n".join(texts).casefold()
    meant = {word: found for word in unknown if (found := _meant_by(word, joined))}
    if not meant:
        return None
    return _WORD.sub(lambda match: meant.get(match[0].casefold(), match[0]), question)


def is_typing_error(word: str, meant: str) -> bool:
    """Return whether a word has a letter too many or too few, or two neighbours in the wrong order.

    A different letter does not count, and neither does an error at the end, because these make other words:
    `state` and `stage`, `office` and `officer`.
    """
    if word[:SAME_BEGINNING] != meant[:SAME_BEGINNING] or word[-1] != meant[-1]:
        return False
    shorter, longer = sorted((word, meant), key=len)
    at = next((at for at, (a, b) in enumerate(zip(shorter, longer, strict=False)) if a != b), len(shorter))
    if len(longer) - len(shorter) == 1:
        return shorter[at:] == longer[at + 1 :]
    swapped = word[at + 1 : at + 2] + word[at : at + 1]
    return word != meant and meant[at:] == swapped + word[at + 2 :]


def _meant_by(word: str, text: str) -> str | None:
    """Return the only word of the text that another one can be an error for."""
    alike = {match[0] for match in re.finditer(rf"\b{word[:SAME_BEGINNING]}[^\W\d_]+", text)}
    found = [
        each for each in alike - STOP_WORDS if len(each) >= LEAST_LETTERS and is_typing_error(word, each)
    ]
    return found[0] if len(found) == 1 else None


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}
