"""The rules that describe each kind of instruction. The comment in `rules.toml` explains how to write one."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final, NamedTuple

from agentctx.redaction.keywords import Keywords

RULES_FILE: Final = Path(__file__).with_name("rules.toml")
BEFORE: Final = 200
BEHIND: Final = 600
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

    def is_met(self, plain: str) -> bool:
        """Return whether a text of `visible.plain` that has one of the keywords matches the rule."""
        if self.also and not _has(plain, self.also):
            return False
        return any(self.pattern.search(plain, *window) for window in self._windows(plain))

    def _windows(self, plain: str) -> Iterator[Window]:
        """Yield the parts of a text around the keywords, merged where they overlap."""
        if len(plain) <= BEFORE + BEHIND:
            yield Window(0, len(plain))
            return
        for window in _joined(self._anywhere, plain):
            if not self.also or any(plain.find(word, *window) >= 0 for word in self.also):
                yield window


@dataclass(frozen=True)
class ScreeningRules:
    """Rules in the order of the file."""

    rules: tuple[ScreeningRule, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        return tuple(rule.flag for rule in self.rules)

    def met(self, plain: str) -> list[str]:
        """Return the flags of a text."""
        present = set(self._keywords.within(plain))
        return [
            rule.flag for rule in self.rules if not present.isdisjoint(rule.keywords) and rule.is_met(plain)
        ]

    @cached_property
    def _keywords(self) -> Keywords:
        return Keywords({word for rule in self.rules for word in rule.keywords})


@cache
def load_rules() -> ScreeningRules:
    """Load the rules of `rules.toml`; tests check the format of the file."""
    tables = tomllib.loads(RULES_FILE.read_text(encoding="utf-8"))
    return ScreeningRules(
        tuple(
            ScreeningRule(
                flag=flag,
                description=table["description"],
                keywords=tuple(table["keywords"]),
                also=tuple(table.get("also", ())),
                regex=table["regex"],
            )
            for flag, table in tables.items()
        )
    )


def _has(plain: str, words: tuple[str, ...]) -> bool:
    for word in words:  # noqa: SIM110 - `any` over a generator takes twice as long
        if word in plain:
            return True
    return False


def _joined(keywords: re.Pattern[str], plain: str) -> Iterator[Window]:
    start = end = -1
    for match in keywords.finditer(plain):
        if start >= 0 and match.start() - BEFORE > end:
            yield Window(start, end)
            start = -1
        if start < 0:
            start = max(0, match.start() - BEFORE)
        end = match.end() + BEHIND
    if start >= 0:
        yield Window(start, end)
