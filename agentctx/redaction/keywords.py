"""Which of several hundred keywords a text has, in one look at most texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

# The rarest in prose first.
_RARE: Final = "_~=/:-0123456789."


class Keywords:
    """Keywords in lower case.

    Those with a character that is rare in prose are looked for only in texts that have it beside the same
    character as they do. Of the rest the shortest are looked for at once, by a regex that shares their
    beginnings; the others contain one of them.
    """

    def __init__(self, keywords: Iterable[str]) -> None:
        self._rare: dict[str, dict[str, list[str]]] = {}
        """By the rare character, then by it and its neighbor."""
        common: list[str] = []
        for keyword in sorted(keywords, key=len):
            if telltale := _telltale(keyword):
                pairs = self._rare.setdefault(telltale, {})
                pairs.setdefault(_pair(keyword, keyword.index(telltale)), []).append(keyword)
            else:
                common.append(keyword)
        self._containing: dict[str, list[tuple[str, int]]] = {}
        """By the shortest keyword in them; with where in them it begins."""
        for keyword in common:
            root = next((short for short in self._containing if short in keyword), keyword)
            self._containing.setdefault(root, []).append((keyword, keyword.index(root)))
        self._roots = re.compile(_sharing_beginnings(self._containing)) if common else None

    def within(self, lowered: str) -> Iterator[str]:
        """Those that the text has, each once."""
        for telltale, keywords in self._rare.items():
            if telltale in lowered:
                for pair in keywords.keys() & _pairs(lowered, telltale):
                    yield from (keyword for keyword in keywords[pair] if keyword in lowered)
        yield from self._common_within(lowered)

    def _common_within(self, lowered: str) -> Iterable[str]:
        found: dict[str, None] = {}
        at = 0
        while self._roots and (match := self._roots.search(lowered, at)):
            at = match.start()
            for keyword, offset in self._containing[match[0]]:
                if lowered.startswith(keyword, max(at - offset, 0)):
                    found[keyword] = None
            at += 1
        return found


def _telltale(keyword: str) -> str:
    """The rarest character of a keyword; "" if it has only common ones."""
    foreign = next((character for character in keyword if not character.isascii()), "")
    return foreign or next((character for character in _RARE if character in keyword), "")


def _pair(text: str, at: int) -> str:
    """The character there and the one before it; of the first, the one after it."""
    return text[at - 1 : at + 1] if at else text[:2]


def _pairs(text: str, character: str) -> set[str]:
    """The character with its neighbours."""
    pairs = set()
    at = text.find(character)
    while at >= 0:
        pairs.add(text[at - 1 : at + 1])
        pairs.add(text[at : at + 2])
        at = text.find(character, at + 1)
    return pairs


def _sharing_beginnings(words: Iterable[str]) -> str:
    """A regex of the words that tries the letters they begin with once; none of them begins another."""
    tree: dict[str, Any] = {}
    for word in words:
        branch = tree
        for character in word:
            branch = branch.setdefault(character, {})
    return _alternatives(tree)


def _alternatives(tree: dict[str, Any]) -> str:
    each = [re.escape(character) + _alternatives(branch) for character, branch in sorted(tree.items())]
    return each[0] if len(each) == 1 else f"(?:{'|'.join(each)})" if each else ""
