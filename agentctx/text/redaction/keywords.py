"""Finds which of several hundred keywords a text contains, in a single pass for most texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

_BY_RARITY: Final = "zqjxkvbywgpfmcudlhrsnioate "
"""Characters of prose, rarest first; all others are rarer."""


class Keywords:
    """A set of lower-case keywords to find in texts.

    Each is found by its anchor, one of its rarer characters; all have few different anchors. So a regex skips
    most of a text, and compares the characters around an anchor with a tree of those that may follow it.
    Keywords that are not ASCII are searched in texts with their first such character.
    """

    def __init__(self, keywords: Iterable[str]) -> None:
        self._foreign: dict[str, list[str]] = {}
        common: list[str] = []
        for keyword in keywords:
            if foreign := next((character for character in keyword if not character.isascii()), None):
                self._foreign.setdefault(foreign, []).append(keyword)
            else:
                common.append(keyword)
        self._anchored = _by_anchor(common)
        # The most frequent anchors come first.
        anchors = (
            f"{re.escape(anchor)}{_tree_regex(keywords)}"
            for anchor, keywords in reversed(self._anchored.items())
        )
        self._anchors = re.compile("|".join(anchors)) if common else None

    def within(self, lowered: str) -> Iterable[str]:
        """Return the keywords that the text contains, each once."""
        matched: dict[str, None] = {}
        at = -1
        while self._anchors and (match := self._anchors.search(lowered, at + 1)):
            at = match.start()
            for keyword, offset in self._anchored[lowered[at]]:
                if lowered.startswith(keyword, max(at - offset, 0)):
                    matched[keyword] = None
        if lowered.isascii():
            return matched
        foreign = (keywords for character, keywords in self._foreign.items() if character in lowered)
        return [*matched, *(keyword for keywords in foreign for keyword in keywords if keyword in lowered)]


def _by_anchor(keywords: Sequence[str]) -> dict[str, list[tuple[str, int]]]:
    """Return the keywords by their anchor, each with its offset in the keyword."""
    matched: dict[str, list[tuple[str, int]]] = {}
    left = list(keywords)
    for anchor in sorted(set("".join(keywords)), key=_BY_RARITY.find):
        if anchored := [(keyword, keyword.index(anchor)) for keyword in left if anchor in keyword]:
            matched[anchor] = anchored
            left = [keyword for keyword in left if anchor not in keyword]
    return matched


def _tree_regex(anchored: Iterable[tuple[str, int]]) -> str:
    """Return a regex for the rest of each keyword behind its anchor; it tries each common prefix once."""
    tree: dict[str, Any] = {}
    for keyword, offset in anchored:
        branch = tree
        for character in keyword[offset + 1 :]:
            branch = branch.setdefault(character, {})
        branch[f"(?<={re.escape(keyword)})"] = {}
    return _alternatives(tree)


def _alternatives(tree: dict[str, Any]) -> str:
    branches = [
        (part if len(part) > 1 else re.escape(part)) + _alternatives(branch)
        for part, branch in sorted(tree.items())
    ]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})" if branches else ""
