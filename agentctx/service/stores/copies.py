"""Detects captured replies that repeat a text that is to be forgotten. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

COPY_SHARE: Final = 0.5
"""A text is a copy when at least this share of the shorter text is in the other one."""
RUN_WORDS: Final = 4
"""Length of the word runs that are compared; texts rarely share a run of this length by chance."""

_Runs: TypeAlias = set[tuple[str, ...]]
_WORD: Final = re.compile(r"\w+")


def copies_among(text: str, others: Mapping[str, str]) -> list[str]:
    """Return the keys of the texts that repeat `text`, in order; long ones take tenths of a second.

    A text is a copy if one of the two contains at least `COPY_SHARE` of the other's runs of `RUN_WORDS`
    words. Case and punctuation are ignored. Texts shorter than a run are compared by shorter runs.
    """
    words = _words(text)
    runs = _runs(words, RUN_WORDS)
    return [key for key, other in others.items() if _is_copy(words, runs, _words(other))]


def _is_copy(words: list[str], runs: _Runs, others: list[str]) -> bool:
    run = min(RUN_WORDS, len(words), len(others))
    if not run:
        return False
    mine = runs if run == RUN_WORDS else _runs(words, run)
    theirs = _runs(others, run)
    return len(mine & theirs) >= COPY_SHARE * min(len(mine), len(theirs))


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _runs(words: list[str], length: int) -> _Runs:
    return {tuple(words[at : at + length]) for at in range(len(words) - length + 1)}
