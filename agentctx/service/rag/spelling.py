"""Correct misspelled words of a question by the words of the memory. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from agentctx.service.rag.word_match import QuestionWords
from agentctx.storage.stop_words import STOP_WORDS, stop_words_of

LEAST_LETTERS = 5
"""Shorter words are one letter away from too many others."""
SAME_BEGINNING = 2
"""The first letters of a word are seldom mistyped, and other words often differ there."""

_WORD = re.compile(rf"[^\W\d_]{{{LEAST_LETTERS},}}")


def corrected(question: str, texts: Sequence[str]) -> str | None:
    """Return the question with words of the texts for its misspelled ones; None if there are none.

    A word is misspelled if no text has it, and they have exactly one word that it would be without its
    typing error.
    """
    unknown = {
        word for word in _words(question) - stop_words_of(question) if not QuestionWords(word).found(texts)
    }
    known = _words("\n".join(texts)) - STOP_WORDS if unknown else set[str]()
    meant = {word: found[0] for word in unknown if len(found := _meant_by(word, known)) == 1}
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


def _meant_by(word: str, known: Iterable[str]) -> list[str]:
    return [each for each in known if is_typing_error(word, each)]


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}
