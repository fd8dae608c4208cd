"""Questions and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from agentctx.wire.names import DEFAULT_NAMESPACE, STRICT, Order, Origin, PlaceUnit, Trust


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchRequest:
    """A question. Filters are exact; `since` and `until` are RFC 3339 times or ages like `7d`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    query: str
    namespace: str = DEFAULT_NAMESPACE
    collections: list[str] | None = None
    session: str | None = None
    agent: str | None = None
    category: str | None = None
    tags: list[str] | None = None
    since: str | None = None
    until: str | None = None
    limit: int | None = None
    order: Order = "relevance"
    max_distance: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextRequest(SearchRequest):
    """A question whose answer is wanted as the ready-made block."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    budget_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Location:
    """Where in a file a passage stands: from number `first` to `last` of the unit, both inclusive, from 1."""

    path: str
    unit: PlaceUnit
    first: int
    last: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """One hit: a chunk of an entry. `distance` is cosine (0 to 2), null when it has no vector yet."""

    collection: str
    id: str
    source_id: str
    """The entry's key where it has one, else its id."""
    version: int
    content: str
    distance: float | None
    score: float
    start: int
    end: int
    session: str | None
    agent: str | None
    origin: Origin
    trust: Trust
    created: str
    updated: str
    attributes: dict[str, Any]
    location: Location | None = None
    """For the text of an ingested file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchReply:
    """The passages, best first in the order asked for; `degraded` says why meaning was left out."""

    results: list[Passage]
    degraded: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextReply:
    """The block as an LLM call would get it; empty when nothing is relevant."""

    block: str
    tokens: int
    results: list[Passage]
    degraded: str | None
