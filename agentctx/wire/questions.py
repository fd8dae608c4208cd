"""Questions and their answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agentctx.wire.protocol import (
    DEFAULT_NAMESPACE,
    ActionKind,
    Closure,
    InjectionPosition,
    Order,
    Origin,
    PlaceUnit,
    Trust,
    request_body,
)


@request_body
class SearchRequest:
    """A question. Filters are exact; `since` and `until` are RFC 3339 times or ages like `7d`."""

    query: str
    """The question in plain words; it has no query syntax."""
    namespace: str = DEFAULT_NAMESPACE
    namespaces: list[str] | None = None
    """Search all of these, up to 8, instead of `namespace`. One ranking; each passage names its namespace."""
    collections: list[str] | None = None
    """Null: the ones in `embedding.rag.collections`."""
    session: str | None = None
    """Entries of this session and entries without a session."""
    agent: str | None = None
    category: str | None = None
    tags: list[str] | None = None
    """Entries that have all of these tags."""
    since: str | None = None
    """An RFC 3339 time or an age like `7d`."""
    until: str | None = None
    """The same, exclusive."""
    limit: int | None = None
    """Maximum number of passages; null: `embedding.rag.max_results`."""
    order: Order = "relevance"
    """`relevance`: keyword and vector search fused; `distance`: nearest first."""
    max_distance: float | None = None
    """Drop passages beyond this cosine distance; 0 keeps all."""
    include_superseded: bool | None = None
    """Also find entries that others supersede or resolve."""

    @property
    def asked(self) -> tuple[str, ...]:
        """All namespaces of the question: the guard checks them, and they are searched."""
        return tuple(dict.fromkeys(self.namespaces or [self.namespace]))


@request_body
class ContextRequest(SearchRequest):
    """A question to be answered with the ready-made block.

    With `all`, the query may be empty: the block then has the newest entries within the filter.
    """

    budget_tokens: int | None = None
    """Maximum size of the block in tokens; null: `embedding.rag.budget_tokens`."""
    position: InjectionPosition | None = None
    """Where in the LLM call the block goes. `system` includes only passages of trust `agent` or `operator`,
    `tail` includes all. Both store a receipt. Null: the same block as for `tail`, without a receipt."""
    all: bool | None = None
    """Include passages that are not relevant enough to be injected."""
    present: list[str] | None = None
    """Texts already in the conversation: passages contained in one of them are left out."""
    conversation: str | None = None
    """The conversation that the block goes to: passages injected there before are left out. Unlike `session`,
    it is not a filter."""
    action: ActionKind | None = None
    """The query is the command or the path of the file of something an agent is about to do: passages are
    included if they concern that."""
    folder: str | None = None
    """The folder of the action, absolute; null: `/`."""
    error: str | None = None
    """The output of the command, which failed: learnings whose error pattern fits are included."""
    restarted: bool | None = None
    """Whether the conversation begins, or was compacted: passages injected before may be injected again."""
    decided: bool | None = None
    """With an empty query, only what the `conversation` decided: the entries of this session, and those saved
    since it began without a session, of trust `agent` or `operator`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Location:
    """The place of a passage in a file: numbers `first` to `last` of the unit, both inclusive, from 1."""

    path: str
    """The `source` of the entry."""
    unit: PlaceUnit
    first: int
    last: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """One hit: a chunk of an entry."""

    namespace: str
    collection: str
    id: str
    source_id: str
    """The entry's key, or its id if it has none."""
    version: int
    content: str
    distance: float | None
    """Cosine distance, 0 to 2; null if the passage has no vector yet, or the search was by keywords only."""
    relevance: float
    """The probability that the passage answers the question, 0 to 1."""
    start: int
    """Offset in the content, in code points."""
    end: int
    """Exclusive."""
    session: str | None
    agent: str | None
    origin: Origin
    trust: Trust
    created: str
    updated: str
    attributes: dict[str, Any]
    location: Location | None = None
    """Set for the text of an ingested file."""
    headings: list[str] = field(default_factory=list)
    """For ingested files: the headings, classes or functions that it is in or begins with; outermost
    first."""
    flags: list[str] = field(default_factory=list)
    """The kinds of instructions to an LLM that the entry's text resembles."""
    stale: str | None = None
    """Why the entry's file could not be seen when it was last looked at; null if it was, or has none."""
    superseded: Closure | None = None
    """Whether other entries supersede or resolve it, which only an answer with `include_superseded` has."""
    superseded_by: list[str] = field(default_factory=list)
    """Ids of these entries, nearest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchReply:
    """The passages, best first in the order asked for."""

    results: list[Passage]
    degraded: str | None
    """Why passages may be missing: meaning was not searched, or (`words: …`) keyword search is incomplete."""
    rerank: str | None = None
    """Why the configured reranker was not used; null if it was, or none is configured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextReply:
    """The block for an LLM call; empty if nothing is relevant."""

    block: str
    """The text for the prompt; empty if nothing is relevant."""
    tokens: int
    """Estimated size of the block."""
    results: list[Passage]
    degraded: str | None
    rerank: str | None = None
    injection_id: str | None = None
    """The receipt, even if nothing was injected; null without a `position`."""
    left_out: int = 0
    """With an empty query, how many entries had no room."""
