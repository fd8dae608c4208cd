"""The terms of a memory's text: names and words, alternatives grouped, with what is said of them. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from agentctx.service.rag.word_lists import words
from agentctx.storage.stop_words import STOP_WORDS

TermKind: TypeAlias = Literal["flag", "name", "word"]

_FLAG = re.compile(r"-{1,2}[A-Za-z]")
_NAME = re.compile(r"(?=.*[A-Za-z])(?:.*(?:/.|./|[\d_*<$@:=-]|\w\.\w|[a-z][A-Z])|\.\w)", re.DOTALL)
_AROUND: Final = "`'\"()[],;:!?\u2018\u2019\u201c\u201d"
_OR: Final = frozenset({"or", "/", "|"})
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


Alternatives: TypeAlias = tuple[MemoryTerm, ...]
"""Terms of which one suffices: `-v / --volumes`; at least one."""


def alternatives_in(text: str) -> list[Alternatives]:
    """Return the terms of a text without stop words, in order."""
    groups: list[Alternatives] = []
    for term, is_other in _terms(text):
        if is_other and groups and groups[-1][-1].kind == term.kind:
            groups[-1] = (*groups[-1], term)
        else:
            groups.append((term,))
    return groups


def _terms(text: str) -> Iterator[tuple[MemoryTerm, bool]]:
    """Yield each term, and whether "or" precedes it."""
    excepted = denied = means = 0
    is_other, before = False, ""
    for raw in text.split():
        core = raw.strip(_AROUND)
        core = core.rstrip(".") if core.strip(".") else ""
        low = core.lower()
        if low in _OR:
            is_other = True
        elif low in words("excepted"):
            excepted = _REACH
        elif low in words("denied") or low.endswith("n't"):
            denied = _REACH
        elif low in words("means") or (low == "with" and before.endswith("ed")):
            means = _REACH
        elif core and (kind := _kind(core)):
            yield MemoryTerm(core, kind, excepted > 0, denied > 0, means > 0), is_other
            excepted, denied, means, is_other = excepted - 1, denied - 1, means - 1, False
        before = low
        if raw.rstrip("`'\")")[-1:] in {".", ";"}:
            excepted = denied = means = 0
            is_other = False


def _kind(core: str) -> TermKind | None:
    """Return the kind of a term; None for a word that indicates no topic."""
    if _FLAG.match(core):
        return "flag"
    if _NAME.match(core):
        return "name"
    low = core.lower()
    is_empty = low in STOP_WORDS - words("subcommands") or low in words("generic")
    return None if is_empty or not any(map(str.isalnum, low)) else "word"
