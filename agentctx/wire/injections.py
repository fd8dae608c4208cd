"""Receipts of injections, and why an entry was missing from one. Ids and figures, no text of entries."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentctx.wire.protocol import Fate, InjectionPosition, Verdict, request_body
from agentctx.wire.questions import ContextRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class InjectionCandidate:
    """A passage that was found, and whether and why it was injected or not."""

    entry: str
    chunk: int
    word_score: float | None
    """BM25, higher is better, comparable within one question; null if no keyword matched."""
    distance: float | None
    """Cosine distance, 0 to 2; null if the passage has no vector yet, or the search was by keywords only."""
    relevance: float
    """The probability that the passage answers the question, 0 to 1; 0 if its text was not read."""
    fate: Fate
    """`relevance`: too unlikely to answer the question, or far less likely than another; `twin`: names
    another of the kind that the question names, or the question is about a name that nothing found has;
    `distance`: farther away than the question allows; `share`: its entry has better passages; `limit`: there
    are enough better passages; `stale`: changed in the meantime; `flagged`: resembles instructions, and the
    block is for a system prompt; `present`: already in the conversation; `duplicate`: repeats another
    passage; `cap`: the block has enough of its source, or of external entries; `budget`: the block is full;
    `refused`: it was in the block, but the vendor refused the call and took it without."""
    duplicate_of: str | None = None
    """The entry that says the same."""
    reranked: int | None = None
    """Rank by the reranker, from 1."""
    by_judge: bool = False
    """Whether the judge has read it; otherwise rules alone gave its relevance."""
    collection: str | None = None
    """Null if the entry no longer exists; so is `source_id`."""
    source_id: str | None = None
    """The entry's key, or its id if it has none."""
    superseded_by: list[str] = field(default_factory=list)
    """Ids of the entries that supersede or resolve it at present, nearest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InjectionSummary:
    """One injection into one LLM call."""

    id: str
    """Ids sort by time."""
    created: str
    namespaces: list[str]
    """The namespaces that were searched."""
    session: str | None
    conversation: str | None
    """The conversation that the block went to."""
    agent: str | None
    principal: int | None
    """The kernel's uid of the process that asked."""
    position: InjectionPosition
    question_hash: str
    """Equal for equal questions, within this installation only."""
    question: str | None
    """Null unless `injection.store_prompts` is set."""
    injected: int
    """Passages in the block; 0 when nothing was injected."""
    fates: dict[str, int]
    """The number of passages found, by fate."""
    gate: float | None
    """The relevance that the best passage needed; null if there was no threshold."""
    budget_tokens: int
    tokens: int
    """Size of the block, an estimate."""
    milliseconds: float
    """Time from the question to the block."""
    block_hash: str | None
    """SHA-256 of the block's bytes; null when nothing was injected."""
    degraded: str | None
    """Why the search was by keywords only; null if meaning was searched too."""
    rerank: str | None
    """Why the configured reranker was not used; null if it was, or none is configured."""
    judge: str | None = None
    """Why the judge did not read what the rules left open; null if it did, or nothing was open."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InjectionView(InjectionSummary):
    """The complete receipt, with the best candidates in order."""

    candidates: list[InjectionCandidate]


@dataclass(frozen=True, kw_only=True, slots=True)
class InjectionList:
    """The last injections, newest first."""

    injections: list[InjectionSummary]


@request_body
class ExplainRequest(ContextRequest):
    """The missed entry, and the question that should have found it. The default `position` is `tail`."""

    entry: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainReply:
    """Whether an entry would be injected for a question at present, and why."""

    entry: str
    verdict: Verdict
    """The fate of its best passage, or why none was found: `not_found`: the entry does not exist; `expired`;
    `quarantined`; `withdrawn`: its file no longer says it; `superseded`: others are in its place;
    `namespace`: it is in another one; `filter`: a filter of the question excludes it; `trust`: too low for
    a system prompt; `off`: nothing is injected; `no_question`: nothing is looked up for such a text;
    `no_vector`: not embedded yet, and no word matches; `no_match`."""
    message: str
    """The verdict as a sentence, with the decisive figures."""
    word_rank: int | None = None
    """Rank among all passages by keyword, from 1; null if no word matches."""
    distance_rank: int | None = None
    """Rank among all passages by distance; null without a distance, or beyond the first thousand."""
    fused_rank: int | None = None
    """Rank among the candidates."""
    words_matched: int | None = None
    """How many of the question's words occur in the passage."""
    words_wanted: int | None = None
    gate: float | None = None
    """The relevance that the best passage needs; null if there is no threshold."""
    degraded: str | None = None
    candidates: list[InjectionCandidate]
    """The entry's passages that were considered."""
