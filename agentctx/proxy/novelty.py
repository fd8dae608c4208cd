"""Extract what is new in a reply, without repetitions of what was injected. Pure.

A reply is judged by sentence. A sentence from an injected passage, or one mostly made of its words, came from
the memory and must not be saved as something new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

SAME: Final = 0.7
"""Share of a sentence's word pairs that occur in the passages, from which on it counts as repetition."""
LEAST_WORDS: Final = 4
"""A shorter text is not worth keeping as an observation."""

_SENTENCE: Final = re.compile(r"(?<=[.!?:;\u3002\uff01\uff1f])\s+|\n+")
_WORD: Final = re.compile(r"[^\W_]+")


def new_text(reply: str, injected: Iterable[str]) -> str:
    """Return the sentences of a reply that say something new, one per line; empty if there is hardly any.

    `injected` holds the contents of the passages that the model was given.
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
