"""Questions and their answers. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentctx.rag.relevance import Gate
from agentctx.rag.trace import Considered
from agentctx.storage.search import Filter, ResolvedChunk
from agentctx.wire import InjectionPosition, Order, Trust

TRUST_OF_SYSTEM: tuple[Trust, ...] = ("agent", "operator")
"""The trust allowed in a system prompt, because an LLM obeys what it reads there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to the memory. A `max_distance` of 0 keeps all; `deadline_s` limits the vector search.

    A context block omits passages that are not worth injecting, unless `everything` is set. `present` holds
    texts that are already in the conversation.
    """

    text: str
    wanted: Filter
    also: tuple[str, ...] = ()
    """Further namespaces to search with the same filter."""
    limit: int
    order: Order = "distance"
    max_distance: float = 0.0
    position: InjectionPosition | None = None
    everything: bool = False
    present: Sequence[str] = ()
    own: tuple[str | None, int] = (None, 0)
    """The session of the conversation itself, and since when it contains its own turns."""
    deadline_s: float | None = None
    """Deadline in seconds; None uses the setting."""
    asker: int | None = None
    """The uid of the caller; passages saved by other users are capped."""

    @property
    def filters(self) -> list[Filter]:
        """The filter for each namespace to search."""
        return [self.wanted, *(replace(self.wanted, namespace=name) for name in self.also)]


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage of the answer."""

    chunk: ResolvedChunk
    distance: float | None
    relevance: float
    """Probability that the passage answers the question, 0 to 1."""

    @property
    def source_id(self) -> str:
        return self.chunk.entry.key or self.chunk.entry.id


@dataclass(frozen=True, slots=True)
class Answer:
    """The hits in the requested order. `degraded` says why vectors or some words were not searched.

    `rerank` says why the reranker was not used; None if it was, or if there is none.
    """

    hits: tuple[Hit, ...]
    degraded: str | None = None
    rerank: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The block for a prompt, its estimated tokens, and the hits that it contains.

    `considered` lists every candidate of an injection with its fate, in order; `gate` is the relevance that
    was required.
    """

    block: str
    tokens: int
    hits: tuple[Hit, ...]
    degraded: str | None = None
    rerank: str | None = None
    considered: tuple[Considered, ...] = ()
    gate: Gate | None = None


def allowed(question: Question) -> Question:
    """Restrict the question to what its position allows: nothing of unknown origin in a system prompt."""
    if question.position != "system":
        return question
    trust = tuple(each for each in question.wanted.trust if each in TRUST_OF_SYSTEM)
    return replace(question, wanted=replace(question.wanted, trust=trust))
