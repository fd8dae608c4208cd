"""The terms of a memory's text: names and words, alternatives grouped, with what is said of them. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from agentctx.storage.stop_words import STOP_WORDS

TermKind: TypeAlias = Literal["flag", "name", "dashed", "word"]

_FLAG = re.compile(r"-{1,2}[A-Za-z]")
_NAME = re.compile(r"/.|./|[\d_*<$@:]|\w\.\w|^\.\w|[a-z][A-Z]")
_EXCEPT: Final = frozenset(["without", "except", "excluding", "lacking", "unless"])
_NOT: Final = frozenset(
    """
    not never no nor nobody nothing instead than
    """.split()  # noqa: SIM905 - a literal would take one line per word
)
_OR: Final = frozenset(["or", "/", "|"])
_AND: Final = frozenset(["and", "&"])
_BY: Final = frozenset(
    """
    by via through use uses using run call belong belongs
    """.split()  # noqa: SIM905 - a literal would take one line per word
)
_GENERIC: Final = frozenset(
    """
    running anything something calling typically especially always usually still just own several
    another whole directly gets get got made make makes goes go one ones two three first second may must
    need needs way also even yet since later soon bare plain
    """.split()  # noqa: SIM905 - a literal would take one line per word
)
_SUBCOMMANDS: Final = frozenset({"up", "down"})
"""Stop words that name what many programs do."""
_CLAUSE: Final = frozenset(
    """
    that which when while where because after before since unless
    """.split()  # noqa: SIM905 - a literal would take one line per word
)
_HEAD_WORDS: Final = 3
"""A clause after fewer words of a text is part of its head."""
_REACH: Final = 4
"""How many terms a word like "not" or "by" reaches, within its sentence."""


class MemoryTerm(NamedTuple):
    """A name or a word of a text."""

    text: str
    kind: TermKind
    is_excepted: bool = False
    """Whether the text speaks of its absence: `without --force`."""
    is_denied: bool = False
    """Whether the text says not to: `do not use --force`."""
    is_means: bool = False
    """Whether the text says to use it: `changed with ansible-vault edit`."""


class TermGroup(NamedTuple):
    """Terms of which one suffices: `-v / --volumes`. `is_head`: before any condition."""

    terms: tuple[MemoryTerm, ...]
    is_head: bool = True
    is_optional: bool = False
    is_listed: bool = False
    """Whether a comma precedes it."""

    @property
    def kind(self) -> TermKind:
        return self.terms[0].kind


class _Reader:
    """Collects the groups of a text, word by word."""

    def __init__(self) -> None:
        self.groups: list[TermGroup] = []
        self.is_head = True
        self._end_sentence()

    def _end_sentence(self) -> None:
        self.excepted = self.denied = self.means = 0
        self.joins = self.before = ""
        self.is_listed = False

    def read(self, raw: str, core: str) -> None:
        low = core.lower()
        if low in _OR or low in _AND:
            self.joins = "or" if low in _OR else "and"
        elif low in _EXCEPT:
            self.excepted = _REACH
        elif low in _NOT or low.endswith("n't"):
            self.denied = _REACH
        elif low in _BY or (low == "with" and self.before.endswith("ed")):
            self.means = _REACH
        elif core:
            self.is_head = self.is_head and not (low in _CLAUSE and len(self.groups) >= _HEAD_WORDS)
            kind = _kind(core)
            if kind != "word" or not _is_empty(low):
                self._add(MemoryTerm(core, kind, self.excepted > 0, self.denied > 0, self.means > 0))
                self.is_listed = raw.endswith(",")
        self.before = low
        if raw.rstrip("`'\")")[-1:] in {".", ";"}:
            self._end_sentence()

    def _add(self, term: MemoryTerm) -> None:
        groups = self.groups
        joins = self.joins if self.joins != "and" or term.kind != "word" else ""
        if joins and groups and groups[-1].terms[-1].kind == term.kind:
            last = groups.pop()
            while last.is_listed and groups and groups[-1].terms[-1].kind == term.kind:
                last = _merged(groups.pop(), last)
            groups.append(last._replace(terms=(*last.terms, term)))
        else:
            if joins == "or" and groups:
                groups[-1] = groups[-1]._replace(is_optional=True)
            groups.append(TermGroup((term,), self.is_head, is_listed=self.is_listed))
        self.excepted, self.denied, self.means, self.joins = (
            self.excepted - 1,
            self.denied - 1,
            self.means - 1,
            "",
        )


def term_groups(text: str) -> list[TermGroup]:
    """Return the terms of a text without stop words, in order."""
    reader = _Reader()
    for raw, core in _cores(text):
        reader.read(raw, core)
    return reader.groups


def _merged(first: TermGroup, second: TermGroup) -> TermGroup:
    return first._replace(terms=(*first.terms, *second.terms))


def _cores(text: str) -> Iterator[tuple[str, str]]:
    """Yield each word as written and without punctuation around it."""
    for raw in text.split():
        core = raw.strip("`'\"()[],;:!?\u2018\u2019\u201c\u201d")
        yield raw, core.rstrip(".") if core.strip(".") else ""


def _kind(core: str) -> TermKind:
    if _FLAG.match(core):
        return "flag"
    if _NAME.search(core) and re.search("[A-Za-z]", core):
        return "name"
    return "dashed" if "-" in core or "=" in core else "word"


def _is_empty(low: str) -> bool:
    return (
        (low in STOP_WORDS and low not in _SUBCOMMANDS) or low in _GENERIC or not any(map(str.isalnum, low))
    )
