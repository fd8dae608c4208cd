"""Questions and their answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from agentctx.wire.names import DEFAULT_NAMESPACE, STRICT, InjectionPosition, Order, Origin, PlaceUnit, Trust


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchRequest:
    """A question. Filters are exact; `since` and `until` are RFC 3339 times or ages like `7d`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    query: str
    """In plain words; nothing in it is syntax."""
    namespace: str = DEFAULT_NAMESPACE
    namespaces: list[str] | None = None
    """Ask all of these, up to 8, instead of `namespace`. One ranking; each passage says where it is from."""
    collections: list[str] | None = None
    """None: those of `embedding.rag.collections`."""
    session: str | None = None
    """Entries of this session and of none."""
    agent: str | None = None
    category: str | None = None
    tags: list[str] | None = None
    """All of them."""
    since: str | None = None
    """An RFC 3339 time or an age like `7d`."""
    until: str | None = None
    """The same; earlier than this."""
    limit: int | None = None
    """Most passages; none: `embedding.rag.max_results`."""
    order: Order = "relevance"
    """`relevance`: words and meaning fused; `distance`: the nearest first."""
    max_distance: float | None = None
    """Drop passages farther than this cosine distance; 0 keeps all."""

    @property
    def asked(self) -> tuple[str, ...]:
        """Every namespace that is asked: the guard checks these, and these are searched."""
        return tuple(dict.fromkeys(self.namespaces or [self.namespace]))


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextRequest(SearchRequest):
    """A question whose answer is wanted as the ready-made block."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    budget_tokens: int | None = None
    """Most tokens of the block; none: `embedding.rag.budget_tokens`."""
    position: InjectionPosition | None = None
    """Where in the LLM call the block goes. `system` carries only what agents and operators vouch for, `tail`
    carries all. Both keep a receipt. None: the same block as at the tail, without a receipt."""
    all: bool | None = None
    """Also passages that are not relevant enough to be injected."""
    present: list[str] | None = None
    """Texts that the conversation already holds: passages contained in one of them are left out."""
    conversation: str | None = None
    """The conversation that the block goes to: what was injected there before is left out. Unlike `session`,
    it narrows nothing."""
    restarted: bool | None = None
    """The conversation begins, or lost what it held (a compaction): all may be injected again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Location:
    """Where in a file a passage is: from number `first` to `last` of the unit, both inclusive, from 1."""

    path: str
    """The `source` of the entry."""
    unit: PlaceUnit
    first: int
    last: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """One hit: a chunk of an entry. `distance` is cosine (0 to 2), null when it has no vector yet."""

    namespace: str
    collection: str
    id: str
    source_id: str
    """The entry's key where it has one, else its id."""
    version: int
    content: str
    distance: float | None
    """Cosine distance, 0 to 2; null while it has no vector, or when meaning took no part."""
    relevance: float
    """The probability that it answers the question, 0 to 1."""
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
    """For the text of an ingested file."""
    headings: list[str] = field(default_factory=list)
    """Of such a text: headings, or classes and functions, that it stands in or begins; outermost first."""
    flags: list[str] = field(default_factory=list)
    """What the entry's text looks like that an LLM might obey."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchReply:
    """The passages, best first in the order asked for."""

    results: list[Passage]
    degraded: str | None
    """Why passages may be missing: meaning took no part, or (`words: …`) keyword search is incomplete."""
    rerank: str | None = None
    """Why the configured reranker took no part; null when it did, or none is configured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextReply:
    """The block as an LLM call would get it; empty when nothing is relevant."""

    block: str
    """What goes into the prompt; empty when nothing was found."""
    tokens: int
    """An estimate."""
    results: list[Passage]
    degraded: str | None
    rerank: str | None = None
    injection_id: str | None = None
    """The receipt of an injection, also of one that injects nothing; null without a `position`."""
