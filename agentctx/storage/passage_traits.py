"""What ranking takes from a text besides its words: kept with each chunk, so that ranking reads no texts.

No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

MOST_TIMES: Final = 2
_SPEAKER: Final = re.compile(r"\s{0,4}([^\W\d_][\w .'\u2019-]{0,30}):\s")
_SPEAKER_WITHIN: Final = 40
_QUESTION_MARKS: Final = ("?", "\uff1f", "\u061f")
_TIMES: Final = re.compile(
    r"\b(?:yesterday|today|tomorrow|tonight|last|next|ago|recently|since|soon|morning|days?|weeks?|weekend|"
    r"months?|years?|spring|summer|fall|autumn|winter|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|"
    r"april|may|june|july|august|september|october|november|december)\b",
    re.I,
)


class TextTraits(NamedTuple):
    """How many words a text has, who speaks ("Ann: …", else empty), whether it ends with a question mark,
    and how many words for times it has, up to `MOST_TIMES`.
    """

    words: int
    speaker: str
    asks: bool
    times: int


class PassageTraits(NamedTuple):
    """What ranking takes from a passage: the traits of its text, where `speaker` is the agent, if one said
    it, and in `found` the words of the question that are in its text, its labels or its cues.
    """

    entry: str
    words: int
    speaker: str
    asks: bool
    times: int
    found: frozenset[str]


class WordFinder(Protocol):
    """Finds the words of a question."""

    @property
    def spellings(self) -> Mapping[str, Sequence[str]] | None:
        """How the question spells each word, for an index of words; None: only a text tells whether it has
        them.
        """

    def matches_in_each(self, passages: Sequence[Sequence[str]]) -> list[frozenset[str]]:
        """Return, for each passage, the words that occur in any of its texts."""


def traits_of(text: str) -> TextTraits:
    """Return the traits of a text."""
    speaker = _SPEAKER.match(text) if ":" in text[:_SPEAKER_WITHIN] else None
    return TextTraits(
        text.count(" ") + text.count("\n") + 1,
        speaker[1] if speaker else "",
        text.rstrip().endswith(_QUESTION_MARKS),
        min(len({match[0].casefold() for match in _TIMES.finditer(text)}), MOST_TIMES),
    )
