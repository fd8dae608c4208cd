"""Find redundant passages: texts that repeat each other or are already in the conversation. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.render import HEADING, unquoted
from agentctx.service.rag.versions import FactText
from agentctx.storage.records import Entry


def normalised(text: str) -> str:
    """Strip the text and collapse runs of white space to one space. Case is kept."""
    return " ".join(text.split())


class ConversationTexts:
    """The texts already in a conversation, in which passages are looked up.

    In texts with context blocks of earlier calls, passages are found both quoted and unquoted. `own` is the
    session of the conversation, and since when it contains what was captured of it.
    """

    def __init__(self, texts: Sequence[str] = (), own: tuple[str | None, int] = (None, 0)) -> None:
        self._texts = texts
        self._own = own

    @cached_property
    def _haystack(self) -> str:
        shown = [*self._texts, *(unquoted(text) for text in self._texts if HEADING in text)]
        # A normalised text has no line break, so no match can span two texts.
        return "\n".join(map(normalised, shown))

    def holds(self, text: str) -> bool:
        """Return whether a text of the conversation contains this text, up to white space."""
        return bool(self._haystack) and normalised(text) in self._haystack

    def has_turn(self, entry: Entry) -> bool:
        """Return whether the entry is a turn of the conversation itself."""
        session, since = self._own
        return entry.origin == "capture" and entry.session == session and entry.created >= since


class DistinctCandidates(NamedTuple):
    """Candidates without duplicates. `of` maps each dropped chunk to the chunk that was kept instead."""

    kept: list[Candidate]
    of: Mapping[int, int]


def without_duplicates(candidates: Sequence[Candidate], texts: Mapping[int, str]) -> DistinctCandidates:
    """Keep one candidate of each group of duplicates, at the rank of the best in the group.

    If one text contains another, the longer one is kept; of nearly equal texts, the better ranked one.
    `texts` holds the content of every candidate.
    """
    kept: list[_ComparableText] = []
    of: dict[int, int] = {}
    for candidate in candidates:
        wording = _ComparableText(candidate, texts[candidate.chunk])
        covering = next((other for other in kept if other.covers(wording)), None)
        if covering is not None:
            of[candidate.chunk] = covering.candidate.chunk
            continue
        covered = [at for at, other in enumerate(kept) if other.text in wording.text]
        of |= {kept[at].candidate.chunk: candidate.chunk for at in covered}
        if covered:
            kept[covered[0]] = wording
            kept = [each for at, each in enumerate(kept) if at not in covered[1:]]
        else:
            kept.append(wording)
    return DistinctCandidates([wording.candidate for wording in kept], _followed(of))


class _ComparableText:
    """A candidate's text, prepared for comparison."""

    def __init__(self, candidate: Candidate, content: str) -> None:
        self.candidate = candidate
        self.text = normalised(content)
        self.fact = FactText(content)

    def covers(self, other: _ComparableText) -> bool:
        """Return whether this text says everything that the other says."""
        return other.text in self.text or self.fact.repeats(other.fact)


def _followed(of: Mapping[int, int]) -> dict[int, int]:
    """Map each dropped chunk to the one finally kept, following chains."""
    ends: dict[int, int] = {}
    for chunk, other in of.items():
        while other in of:
            other = of[other]  # noqa: PLW2901 - one chain is followed to its end
        ends[chunk] = other
    return ends
