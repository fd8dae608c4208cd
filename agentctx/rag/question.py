"""A question, and what it is answered with. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentctx.rag.relevance import Gate
from agentctx.rag.trace import Considered
from agentctx.storage.records import Filter, ResolvedChunk
from agentctx.wire import InjectionPosition, Order, Trust

TRUST_OF_SYSTEM: tuple[Trust, ...] = ("agent", "operator")
"""What a system prompt may carry: an LLM obeys what stands there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked. `max_distance` 0 keeps all; the deadline is for the meaning, in seconds.

    In a context block, what is not worth a place in an LLM call is left out, unless `everything` is wanted.
    `present` are texts that the conversation holds already.
    """

    text: str
    wanted: Filter
    also: tuple[str, ...] = ()
    """Further namespaces, asked with the same filter."""
    limit: int
    order: Order = "distance"
    max_distance: float = 0.0
    position: InjectionPosition | None = None
    everything: bool = False
    present: Sequence[str] = ()
    deadline_s: float | None = None
    """None: that of the settings."""
    asker: int | None = None
    """The uid of who asks: what other users saved is capped."""

    @property
    def filters(self) -> list[Filter]:
        """What is wanted, in each namespace that is asked."""
        return [self.wanted, *(replace(self.wanted, namespace=name) for name in self.also)]


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage of the answer."""

    chunk: ResolvedChunk
    distance: float | None
    relevance: float
    """The probability that it answers the question, 0 to 1."""

    @property
    def source_id(self) -> str:
        return self.chunk.entry.key or self.chunk.entry.id


@dataclass(frozen=True, slots=True)
class Answer:
    """The hits in the order asked for. `degraded` says why meaning had no part, or what words miss.

    `rerank` says why the reranker had no part; None when it had, or when there is none to ask.
    """

    hits: tuple[Hit, ...]
    degraded: str | None = None
    rerank: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The block for a prompt, its estimated tokens, and the hits that are in it.

    `considered` is every candidate of an injection with what became of it, in order; `gate` is the relevance
    they needed.
    """

    block: str
    tokens: int
    hits: tuple[Hit, ...]
    degraded: str | None = None
    rerank: str | None = None
    considered: tuple[Considered, ...] = ()
    gate: Gate | None = None


def allowed(question: Question) -> Question:
    """The question with what its position may carry: in the system prompt, nothing of unknown origin."""
    if question.position != "system":
        return question
    trust = tuple(each for each in question.wanted.trust if each in TRUST_OF_SYSTEM)
    return replace(question, wanted=replace(question.wanted, trust=trust))
