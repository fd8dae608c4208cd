"""A chunk on its way into an answer, and the fate of every candidate of an injection. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from agentctx.service.rag.relevance import Gate
from agentctx.wire import Fate

Standing: TypeAlias = Literal["exact", "has", "twin", "unknown"]
"""How a passage stands to what the question names (`twins.standings`)."""


class Candidate(NamedTuple):
    """A chunk that may be part of the answer.

    `word_score` grows with relevance; None if keyword search did not find the chunk. `distance` is the cosine
    distance, 0 to 2; None if the chunk has no vector. `score` orders the candidates of one question, higher
    is better. `relevance` is the probability that the chunk answers the question, 0 until it is rated;
    `by_words` says that it was rated by words alone, `by_cue` that the distance is a cue's, `is_partial`
    that the text, or the cue with the words, has no vector. `rarity` sums the idf of the question's words in
    it, 0 until read. `behind` is how far its log odds are below those of the best for the same query.
    `by_judge` says that the judge has read it, `is_turn` that it is part of a conversation, `names` how it
    stands to what the question names.
    """

    chunk: int
    entry: str
    word_score: float | None
    distance: float | None
    score: float = 0.0
    relevance: float = 0.0
    by_words: bool = False
    by_cue: bool = False
    is_partial: bool = False
    rarity: float = 0.0
    by_judge: bool = False
    is_turn: bool = False
    names: Standing | None = None
    behind: float = 0.0

    @property
    def is_unmeasured(self) -> bool:
        """Whether the text, or the cue with the words, has no vector."""
        return self.distance is None or self.is_partial


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsideredCandidate:
    """A candidate and its fate. `duplicate_of` is the entry kept instead; `reranked` is a rank from 1."""

    candidate: Candidate
    fate: Fate
    duplicate_of: str | None = None
    reranked: int | None = None


class Trace:
    """The candidates of one question in fused order, and the step that dropped each."""

    def __init__(self, ranked: Sequence[Candidate], gate: Gate | None = None) -> None:
        self._ranked = ranked
        self.gate = gate
        self._fates: dict[int, Fate] = {}
        self._duplicate_of: dict[int, str] = {}
        self._reranked: dict[int, int] = {}

    def left_out(self, fate: Fate, chunks: Iterable[int]) -> None:
        """Record the chunks that a step dropped."""
        self._fates.update((chunk, fate) for chunk in chunks)

    def kept(self, fate: Fate, before: Sequence[Candidate], after: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates after a step, and record the fate of those it dropped."""
        staying = {candidate.chunk for candidate in after}
        self.left_out(fate, (c.chunk for c in before if c.chunk not in staying))
        return list(after)

    def duplicates(self, of: Mapping[int, int]) -> None:
        """Record, for each duplicate chunk, the chunk kept instead."""
        entries = {candidate.chunk: candidate.entry for candidate in self._ranked}
        self._duplicate_of.update((chunk, entries[other]) for chunk, other in of.items())

    def reranked(self, order: Sequence[Candidate]) -> None:
        """Record the reranker's order."""
        self._reranked = {candidate.chunk: at for at, candidate in enumerate(order, start=1)}

    def considered(self) -> tuple[ConsideredCandidate, ...]:
        """Return every candidate in fused order; those that no step dropped are injected."""
        return tuple(
            ConsideredCandidate(
                candidate=candidate,
                fate=self._fates.get(candidate.chunk, "injected"),
                duplicate_of=self._duplicate_of.get(candidate.chunk),
                reranked=self._reranked.get(candidate.chunk),
            )
            for candidate in self._ranked
        )


def without_room(considered: Sequence[ConsideredCandidate]) -> int:
    """Return how many entries were left out for lack of room alone."""
    shown = {each.candidate.entry for each in considered if each.fate == "injected"}
    return len({c.candidate.entry for c in considered if c.fate in {"limit", "cap", "budget"}} - shown)


def count_fates(considered: Sequence[ConsideredCandidate]) -> dict[Fate, int]:
    """Count the candidates of each fate."""
    return dict(Counter(each.fate for each in considered))
