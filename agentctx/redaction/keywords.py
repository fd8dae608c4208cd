"""Finds which of several hundred keywords a text contains, in a single pass for most texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

# The rarest characters in prose come first.
_RARE: Final = "_~=/:-0123456789."


class Keywords:
    """A set of lower-case keywords to find in texts.

    A keyword with a character that is rare in prose is searched only in texts that contain this character
    with the same neighbour. Of the other keywords, the shortest are searched together, by a regex that shares
    their prefixes; each longer one contains one of these and is checked where that is found.
    """

    def __init__(self, keywords: Iterable[str]) -> None:
        self._rare: dict[str, dict[str, list[str]]] = {}
        """Keywords by their rare character, then by the pair of it and its neighbour."""
        common: list[str] = []
        for keyword in sorted(keywords, key=len):
            if telltale := _rarest_character(keyword):
                pairs = self._rare.setdefault(telltale, {})
                pairs.setdefault(_pair(keyword, keyword.index(telltale)), []).append(keyword)
            else:
                common.append(keyword)
        self._containing: dict[str, list[tuple[str, int]]] = {}
        """Keywords by the shortest keyword they contain, with its offset."""
        for keyword in common:
            root = next((short for short in self._containing if short in keyword), keyword)
            self._containing.setdefault(root, []).append((keyword, keyword.index(root)))
        self._roots = re.compile(_prefix_tree_regex(self._containing)) if common else None

    def within(self, lowered: str) -> Iterator[str]:
        """Yield the keywords that the text contains, each once."""
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


def _rarest_character(keyword: str) -> str:
    """Return the rarest character of a keyword; "" if all its characters are common."""
    foreign = next((character for character in keyword if not character.isascii()), "")
    return foreign or next((character for character in _RARE if character in keyword), "")


def _pair(text: str, at: int) -> str:
    """Return the character at `at` with its predecessor, or with its successor if it is the first."""
    return text[at - 1 : at + 1] if at else text[:2]


def _pairs(text: str, character: str) -> set[str]:
    """Return every pair of the character and a neighbour that occurs in the text."""
    pairs = set()
    at = text.find(character)
    while at >= 0:
        pairs.add(text[at - 1 : at + 1])
        pairs.add(text[at : at + 2])
        at = text.find(character, at + 1)
    return pairs


def _prefix_tree_regex(words: Iterable[str]) -> str:
    """Return a regex of the words that tries each common prefix once; no word may be a prefix of another."""
    tree: dict[str, Any] = {}
    for word in words:
        branch = tree
        for character in word:
            branch = branch.setdefault(character, {})
    return _alternatives(tree)


def _alternatives(tree: dict[str, Any]) -> str:
    each = [re.escape(character) + _alternatives(branch) for character, branch in sorted(tree.items())]
    return each[0] if len(each) == 1 else f"(?:{'|'.join(each)})" if each else ""
