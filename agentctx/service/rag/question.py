"""Questions and their answers. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentctx.service.rag.action_gate import AskedAction
from agentctx.service.rag.candidate import ConsideredCandidate
from agentctx.service.rag.relevance import Gate
from agentctx.storage.records import Entry
from agentctx.storage.search import Filter, ResolvedChunk
from agentctx.wire import InjectionPosition, Order, Trust

TRUST_OF_SYSTEM: tuple[Trust, ...] = ("agent", "operator")
"""The trust allowed in a system prompt, because an LLM obeys what it reads there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to the memory; with a blank `text` and `everything`, it lists what is newest.

    A `max_distance` of 0 keeps all; `deadline_s` limits the vector search.

    A context block omits passages that are not worth injecting, unless `everything` is set. `present` holds
    texts that are already in the conversation.
    """

    text: str
    filter: Filter
    also: tuple[str, ...] = ()
    """Further namespaces to search with the same filter."""
    limit: int
    order: Order = "distance"
    max_distance: float = 0.0
    position: InjectionPosition | None = None
    everything: bool = False
    present: Sequence[str] = ()
    decided: tuple[str, int] | None = None
    """Lists only what this session decided: its entries, and those without a session since this time."""
    own: tuple[str | None, int] = (None, 0)
    """The session of the conversation itself, and since when it contains its own turns."""
    deadline_s: float | None = None
    """Deadline in seconds; None uses the setting."""
    action: AskedAction | None = None
    """What the agent is about to do; `text` is its query."""
    tries: int = 1
    """How many parts of one prompt are asked, this being one: by chance, one of many is near to something."""
    asker: int | None = None
    """The uid of the caller; passages saved by other users are capped."""

    @property
    def filters(self) -> list[Filter]:
        """The filter for each namespace to search."""
        return [self.filter, *(replace(self.filter, namespace=name) for name in self.also)]

    @property
    def is_listing(self) -> bool:
        """Whether nothing is searched: the newest entries within the filter are the answer."""
        return self.everything and not self.text.strip()

    def may_list(self, entry: Entry) -> bool:
        if self.decided is None:
            return True
        session, since = self.decided
        return entry.session == session or entry.created >= since


@dataclass(frozen=True, slots=True)
class Answer:
    """The passages in the requested order and, for an LLM call, the block that contains them.

    `degraded` says why vectors or some words were not searched; `rerank`, why the reranker was not used: None
    if it was, or if there is none; `judge`, why the judge did not read what was open: None if it did, or if
    nothing was. `considered` lists every candidate of an injection with its fate, in order; `gate` is the
    relevance that was required.
    """

    hits: tuple[ResolvedChunk, ...] = ()
    degraded: str | None = None
    rerank: str | None = None
    considered: tuple[ConsideredCandidate, ...] = ()
    gate: Gate | None = None
    block: str = ""
    tokens: int = 0
    """Estimated size of the block."""
    left_out: int = 0
    """How many entries of a listing had no room."""
    judge: str | None = None


def allowed(question: Question) -> Question:
    """Restrict the question to what its position allows: nothing of unknown origin in a system prompt."""
    if question.position != "system":
        return question
    trust = tuple(each for each in question.filter.trust if each in TRUST_OF_SYSTEM)
    return replace(question, filter=replace(question.filter, trust=trust))
