"""Judge what was found for an action: what concerns it, or describes its failure. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from agentctx.service.rag.action import ActionNames
from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.concern import MemoryTerms, concern, rarity_among
from agentctx.service.rag.known_error import FailedOutput, fits, rarity_of_errors
from agentctx.service.rag.relevance import Eagerness, Gate
from agentctx.storage.records import Entry
from agentctx.storage.search import ResolvedChunk
from agentctx.wire import ActionKind

MIN_CONCERN: Final[Mapping[Eagerness, float]] = MappingProxyType(
    {"careful": 0.2, "normal": 0.135, "eager": 0.1}
)
"""The probability required that a memory concerns an action."""
MIN_FIT: Final[Mapping[Eagerness, float]] = MappingProxyType({"careful": 0.4, "normal": 0.25, "eager": 0.15})
"""The probability required that an error pattern describes an output."""
MAX_QUERY_CHARS: Final = 250
MAX_QUERY_WORDS: Final = 36
"""How much of an action is searched for: few enough words that it counts as one question."""


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
        text = self.output.query if self.output else self.names.text
        return " ".join(text[:MAX_QUERY_CHARS].split()[:MAX_QUERY_WORDS]) or "-"

    def gate(self, eagerness: Eagerness | None) -> Gate:
        """Return what a memory needs."""
        least = (MIN_FIT if self.output else MIN_CONCERN)[eagerness or "normal"]
        return Gate(least, least)

    def judged(self, candidates: Sequence[Candidate], found: Mapping[int, ResolvedChunk]) -> list[Candidate]:
        """Set each candidate's relevance to the action, and sort them by it. Passages of files have none."""
        judge = self._fits if self.output else self._concerns
        relevances = judge(candidates, found)
        rated = [
            each._replace(relevance=relevances.get(each.chunk, 0.0), by_words=False) for each in candidates
        ]
        return sorted(rated, key=lambda each: -each.relevance)

    def _concerns(
        self, candidates: Sequence[Candidate], found: Mapping[int, ResolvedChunk]
    ) -> dict[int, float]:
        near = {each.chunk: None if each.distance is None else 1 - each.distance for each in candidates}
        terms = {chunk: _terms_of(found[chunk]) for chunk in near if _is_saved(found.get(chunk))}
        rarity = rarity_among(terms.values())
        return {chunk: concern(of, self.names, rarity, near[chunk]) for chunk, of in terms.items()}

    def _fits(self, candidates: Sequence[Candidate], found: Mapping[int, ResolvedChunk]) -> dict[int, float]:
        output = self.output
        entries = {each.chunk: found[each.chunk].entry for each in candidates if each.chunk in found}
        patterns = {chunk: pattern for chunk, entry in entries.items() if (pattern := _pattern_of(entry))}
        rarity = rarity_of_errors(patterns.values())
        return {chunk: fits(of, output, rarity) for chunk, of in patterns.items()} if output else {}


def _terms_of(passage: ResolvedChunk) -> MemoryTerms:
    if passage.entry.collection != "learning":
        return MemoryTerms.of_text(passage.content)
    trigger, error, diagnosis, fix = (
        _text(passage.entry.attributes, name) for name in ("trigger", "error_pattern", "diagnosis", "fix")
    )
    return MemoryTerms.of_learning(trigger, fix=fix, diagnosis=diagnosis, error=error)


def _pattern_of(entry: Entry) -> str:
    return _text(entry.attributes, "error_pattern") if entry.collection == "learning" else ""


def _is_saved(passage: ResolvedChunk | None) -> bool:
    """Return whether somebody saved a passage, rather than a file that has all kinds of commands."""
    return passage is not None and passage.location is None


def _text(attributes: Mapping[str, Any], name: str) -> str:
    value = attributes.get(name)
    return value if isinstance(value, str) else ""
