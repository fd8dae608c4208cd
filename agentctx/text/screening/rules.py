"""The rules that describe each kind of instruction. The comment in `rules.toml` explains how to write one."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final, NamedTuple

from agentctx.text.redaction.keywords import Keywords
from agentctx.text.screening.visible import LOOKALIKES

RULES_FILE: Final = Path(__file__).with_name("rules.toml")
CONTEXT_BEFORE: Final = 200
CONTEXT_AFTER: Final = 600
"""Characters around a keyword in which the regex is tried, so that most of a long text is skipped."""


class Window(NamedTuple):
    """A part of a text: `[start, end)`."""

    start: int
    end: int


@dataclass(frozen=True)
class ScreeningRule:
    """One flag. Its regex is compiled on first use."""

    flag: str
    description: str
    keywords: tuple[str, ...]
    also: tuple[str, ...]
    """Words of which one must occur too; empty: no such condition."""
    regex: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.regex, re.DOTALL)

    @cached_property
    def _anywhere(self) -> re.Pattern[str]:
        return re.compile("|".join(map(re.escape, self.keywords)))

    def matches(self, text: str) -> bool:
        """Return whether a text of `visible.visible_text` that has one of the keywords matches the rule."""
        if self.also and not _contains(text, self.also):
            return False
        return any(self.pattern.search(text, *window) for window in self._windows(text))

    def _windows(self, text: str) -> Iterator[Window]:
        """Yield the parts of a text around the keywords, merged where they overlap."""
        if len(text) <= CONTEXT_BEFORE + CONTEXT_AFTER:
            yield Window(0, len(text))
            return
        for window in _join_windows(self._anywhere, text):
            if not self.also or any(text.find(word, *window) >= 0 for word in self.also):
                yield window


@dataclass(frozen=True)
class ScreeningRules:
    """Rules in the order of the file."""

    rules: tuple[ScreeningRule, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        return tuple(rule.flag for rule in self.rules)

    def matching_flags(self, text: str) -> list[str]:
        """Return the flags of a text."""
        possible = {at for word in self._keywords.within(text) for at in self._ranks[word]}
        return [self.rules[at].flag for at in sorted(possible) if self.rules[at].matches(text)]

    @cached_property
    def _keywords(self) -> Keywords:
        return Keywords(self._ranks)

    @cached_property
    def _ranks(self) -> dict[str, list[int]]:
        """The places of the rules that have each keyword."""
        ranks: dict[str, list[int]] = {}
        for at, rule in enumerate(self.rules):
            for word in rule.keywords:
                ranks.setdefault(word, []).append(at)
        return ranks


@cache
def load_rules() -> ScreeningRules:
    """Load the rules of `rules.toml`; tests check the format of the file."""
    tables = tomllib.loads(RULES_FILE.read_text(encoding="utf-8"))
    return ScreeningRules(
        tuple(
            ScreeningRule(
                flag=flag,
                description=table["description"],
                keywords=tuple(map(_as_visible, table["keywords"])),
                also=tuple(map(_as_visible, table.get("also", ()))),
                regex=_as_visible(table["regex"]),
            )
            for flag, table in tables.items()
        )
    )


def _as_visible(written: str) -> str:
    """Write a rule in the letters of `visible.visible_text`, which turns Cyrillic ones into Latin ones."""
    return written.translate(LOOKALIKES)


def _contains(text: str, words: tuple[str, ...]) -> bool:
    for word in words:  # noqa: SIM110 - `any` over a generator takes twice as long
        if word in text:
            return True
    return False


def _join_windows(keywords: re.Pattern[str], text: str) -> Iterator[Window]:
    start = end = -1
    for match in keywords.finditer(text):
        if start >= 0 and match.start() - CONTEXT_BEFORE > end:
            yield Window(start, end)
            start = -1
        if start < 0:
            start = max(0, match.start() - CONTEXT_BEFORE)
        end = match.end() + CONTEXT_AFTER
    if start >= 0:
        yield Window(start, end)
