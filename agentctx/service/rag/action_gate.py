"""Rate what was found for an action: what concerns it, or describes its failure. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from agentctx.service.rag.action import ActionNames
from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.concern import (
    MemoryTerms,
    concern,
    rarity_among,
    terms_of_learning,
    terms_of_text,
)
from agentctx.service.rag.known_error import FailedOutput, fits, rarity_of_errors
from agentctx.service.rag.relevance import Eagerness, Gate, log_odds
from agentctx.service.rag.word_lists import lists
from agentctx.storage.records import Entry
from agentctx.storage.search import ResolvedChunk
from agentctx.wire import ActionKind

MIN_CONCERN: Final[Mapping[Eagerness, float]] = MappingProxyType(
    {"careful": 0.28, "normal": 0.195, "eager": 0.14}
)
"""The probability required that a memory concerns an action."""
MIN_FIT: Final[Mapping[Eagerness, float]] = MappingProxyType({"careful": 0.4, "normal": 0.25, "eager": 0.15})
"""The probability required that an error pattern describes an output."""
MAX_QUERY_WORDS, MAX_OPERATION_WORDS = 26, 14
"""How many words of an action, and for what it does, are searched for: few enough for one question."""
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class AskedAction:
    """What an agent is about to do or, with an `output`, what has failed."""

    names: ActionNames
    output: FailedOutput | None = None

    @classmethod
    def of(cls, kind: ActionKind, text: str, *, folder: str = "", error: str = "") -> AskedAction:
        """Return the action: `text` is the command, or the path of the file."""
        return cls(ActionNames.of(kind, text, folder), FailedOutput.of(error) if error else None)

    @property
    def query(self) -> str:
        """The text to search for: never blank."""
        if self.output:
            return self.output.query or "-"
        # A path would be searched for as one phrase.
        words = [word for word in _WORD.findall(self.names.text.lower()) if len(word) > 1]
        alike = (line.split() for line in lists("actions")["operations"])
        does = [word for said in alike if said[0] in self.names.operations for word in said]
        return " ".join([*list(dict.fromkeys(words))[:MAX_QUERY_WORDS], *does[:MAX_OPERATION_WORDS]]) or "-"

    def gate(self, eagerness: Eagerness | None) -> Gate:
        """Return what a memory needs."""
        least = (MIN_FIT if self.output else MIN_CONCERN)[eagerness or "normal"]
        return Gate(least, least)

    def rated(self, candidates: Sequence[Candidate], found: Mapping[int, ResolvedChunk]) -> list[Candidate]:
        """Set each candidate's relevance to the action, how far it is behind the best, and sort by it."""
        passages = {each.chunk: found[each.chunk] for each in candidates if each.chunk in found}
        relevances = _fitting(passages, self.output) if self.output else _concerning(passages, self.names)
        best = log_odds(max(relevances.values(), default=0.0))
        rated = [
            each._replace(relevance=relevance, by_words=False, behind=best - log_odds(relevance))
            for each in candidates
            for relevance in [relevances.get(each.chunk, 0.0)]
        ]
        return sorted(rated, key=lambda each: -each.relevance)


def _concerning(passages: Mapping[int, ResolvedChunk], names: ActionNames) -> dict[int, float]:
    """Return the concern of what somebody saved; a file, which has all kinds of commands, concerns none."""
    terms = {chunk: _terms_of(each) for chunk, each in passages.items() if each.location is None}
    rarity = rarity_among(terms.values())
    return {chunk: concern(memory, names, rarity) for chunk, memory in terms.items()}


def _fitting(passages: Mapping[int, ResolvedChunk], output: FailedOutput) -> dict[int, float]:
    patterns = {chunk: _text(each.entry, "error_pattern") for chunk, each in passages.items()}
    rarity = rarity_of_errors(filter(None, patterns.values()))
    return {chunk: fits(pattern, output, rarity) for chunk, pattern in patterns.items() if pattern}


def _terms_of(passage: ResolvedChunk) -> MemoryTerms:
    entry = passage.entry
    if entry.collection != "learning":
        return terms_of_text(passage.content)
    more = f"{_text(entry, 'diagnosis')} {_text(entry, 'error_pattern')}"
    return terms_of_learning(_text(entry, "trigger"), _text(entry, "fix"), more)


def _text(entry: Entry, name: str) -> str:
    """Return a text of a learning, or an empty one."""
    value = entry.attributes.get(name) if entry.collection == "learning" else None
    return value if isinstance(value, str) else ""
