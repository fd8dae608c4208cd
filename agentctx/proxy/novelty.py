"""What of a reply is new: without what was injected and is only said again. Pure.

A reply is looked at in sentences. One that stands in an injected passage, or is made of its words for the
most part, came from the memory and must not go back into it as something new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

SAME: Final = 0.7
"""Share of a sentence's pairs of words that stand in the passages, from which on it is a repetition."""
LEAST_WORDS: Final = 4
"""Anything shorter is not worth keeping as an observation."""

_SENTENCE: Final = re.compile(r"(?<=[.!?:;\u3002\uff01\uff1f])\s+|\n+")
_WORD: Final = re.compile(r"[^\W_]+")


def new_text(reply: str, injected: Iterable[str]) -> str:
    """The sentences of a reply that say something new, in order, a line each; empty if hardly any does.

    `injected` are the contents of the passages that the model was given.
    """
    known = [_words(passage) for passage in injected]
    pairs = {pair for words in known for pair in _pairs(words)}
    singles = {word for words in known for word in words}
    kept = [
        sentence
        for piece in _SENTENCE.split(reply)
        if (sentence := piece.strip()) and not _is_known(_words(sentence), pairs, singles)
    ]
    text = "\n".join(kept)
    return text if len(_words(text)) >= LEAST_WORDS else ""


def _is_known(words: Sequence[str], pairs: set[tuple[str, str]], singles: set[str]) -> bool:
    if len(words) < 2:
        return not words or words[0] in singles
    own = _pairs(words)
    return sum(pair in pairs for pair in own) >= SAME * len(own)


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    return list(pairwise(words))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
