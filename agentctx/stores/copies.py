"""Whether one text repeats another: captured replies that say again what is to be forgotten. No I/O."""

from __future__ import annotations

import re
from typing import Final

COPY_SHARE: Final = 0.5
"""So much of the shorter text is in the other one, when that counts as a copy."""
RUN_WORDS: Final = 4
"""Words in a row that two texts have in common by more than chance."""

_WORD: Final = re.compile(r"\w+")


def is_copy(text: str, other: str) -> bool:
    """Whether one of two texts holds at least `COPY_SHARE` of the other, by runs of `RUN_WORDS` words.

    Case and punctuation do not count. Texts shorter than a run are copies when one holds all of the other.
    """
    one, two = sorted((_words(text), _words(other)), key=len)
    if not one:
        return False
    run = min(RUN_WORDS, len(one))
    wanted, there = _runs(one, run), _runs(two, run)
    return len(wanted & there) >= COPY_SHARE * len(wanted)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _runs(words: list[str], length: int) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + length]) for at in range(len(words) - length + 1)}
