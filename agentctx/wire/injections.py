"""Receipts of injections, and why an entry was not in one. Ids and figures, no text of entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from agentctx.wire.names import STRICT, Fate, InjectionPosition, Verdict
from agentctx.wire.questions import ContextRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class InjectionCandidate:
    """A passage that was found, and what became of it."""

    entry: str
    chunk: int
    word_score: float | None
    """BM25, higher is better, comparable within one question; null when the words did not find it."""
    distance: float | None
    """Cosine distance, 0 to 2; null while it has no vector, or when meaning took no part."""
    relevance: float
    """The probability that it answers the question, 0 to 1; 0 for those that were not read."""
    fate: Fate
    """`relevance`: too improbable an answer; `distance`: farther than the question
    allows; `share`: better passages of its entry; `limit`: better passages; `stale`: it
    changed meanwhile; `flagged`: shaped like instructions, and meant for a system prompt; `present`: the
    conversation holds it; `duplicate`: another one says it; `cap`: enough of its source, or of external
    entries, is in it; `budget`."""
    duplicate_of: str | None = None
    """The entry that says the same."""
    reranked: int | None = None
    """Its place by the reranker, from 1."""
    collection: str | None = None
    """Null when the entry is gone by now; so is `source_id`."""
    source_id: str | None = None
    """The entry's key where it has one, else its id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InjectionSummary:
    """What was injected into one LLM call."""

    id: str
    """Sorts by time."""
    created: str
    namespaces: list[str]
    """Those that were asked."""
    session: str | None
    agent: str | None
    principal: int | None
    """The kernel's uid of who asked."""
    position: InjectionPosition
    question_hash: str
    """Equal for equal questions, of this installation only."""
    question: str | None
    """Null unless `injection.store_prompts` is set."""
    injected: int
    """Passages in the block; 0 when nothing was injected."""
    fates: dict[str, int]
    """How many of all passages found had each fate."""
    gate: float | None
    """The relevance that the best passage needed; null when none was needed."""
    budget_tokens: int
    tokens: int
    """Of the block, an estimate."""
    milliseconds: float
    """From the question to the block."""
    block_hash: str | None
    """SHA-256 of the block's bytes; null when nothing was injected."""
    degraded: str | None
    """Why meaning took no part; null when it did."""
    rerank: str | None
    """Why the configured reranker took no part; null when it did, or none is configured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InjectionView(InjectionSummary):
    """The whole receipt, with the best candidates in order."""

    candidates: list[InjectionCandidate]


@dataclass(frozen=True, kw_only=True, slots=True)
class InjectionList:
    """The last injections, newest first."""

    injections: list[InjectionSummary]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainRequest(ContextRequest):
    """Which entry was missed, and the question that should have found it. Without a `position`: `tail`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    entry: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainReply:
    """Why an entry is in the context for a question, or not, as things are now."""

    entry: str
    verdict: Verdict
    """The fate of its best passage, or why none was found: `not_found`: no such entry; `expired`;
    `quarantined`; `namespace`: it is in another one; `filter`: the question is narrowed to others; `trust`:
    too little for a system prompt; `no_vector`: not embedded yet, and no word matches; `no_match`."""
    message: str
    """The same in a sentence, with the figures that decided."""
    word_rank: int | None = None
    """Rank among all passages by keyword, from 1; null when no word matches."""
    distance_rank: int | None = None
    """Place among all passages by distance; null without a distance, or beyond the first thousand."""
    fused_rank: int | None = None
    """Place among the candidates."""
    words_matched: int | None = None
    """How many of the question's words the passage has."""
    words_wanted: int | None = None
    gate: float | None = None
    """The relevance that the best passage needs; null when none is needed."""
    degraded: str | None = None
    candidates: list[InjectionCandidate]
    """The entry's passages that were considered."""
