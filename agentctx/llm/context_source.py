"""Sources of blocks: the daemon over its socket, or a `RAGService` in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from agentctx.llm.scope import Scope
from agentctx.wire.protocol import DEFAULT_NAMESPACE, InjectionPosition

if TYPE_CHECKING:
    from agentctx.client.async_client import AsyncClient
    from agentctx.client.options import ContextOptions
    from agentctx.config.embedding import RagSettings
    from agentctx.service.rag.service import RAGService
    from agentctx.wire import ContextReply

MAX_PRESENT_BYTES = 256 * 1024
"""Limit on the texts sent to the daemon with a question, because they must fit into its largest request."""

MEANING_SHARE = 0.75
"""Share of the deadline; the rest is left for keyword search if the embedder is slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextQuestion:
    """The question for one LLM call. `present` holds texts that the model reads anyway."""

    text: str
    scope: Scope = field(default_factory=Scope)
    position: InjectionPosition = "system"
    present: Sequence[str] = ()
    deadline_s: float | None = None
    """Seconds after which the caller stops waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenContext:
    """The block for one LLM call; empty if nothing is relevant."""

    block: str
    tokens: int = 0
    """Estimated size of the block."""
    injection_id: str | None = None
    """Id of the receipt, if the source keeps one."""
    degraded: str | None = None
    """Why meaning took no part."""
    ids: tuple[str, ...] = ()
    """Ids of the entries in the block, in order."""

    @classmethod
    def of(cls, reply: ContextReply) -> GivenContext:
        """Return the daemon's answer."""
        return cls(
            block=reply.block,
            tokens=reply.tokens,
            injection_id=reply.injection_id,
            degraded=reply.degraded,
            ids=tuple(dict.fromkeys(passage.id for passage in reply.results)),
        )


class ContextSource(Protocol):
    """Provides the context of a call. May be slow or raise anything; the call goes out regardless."""

    async def context(self, question: ContextQuestion, /) -> GivenContext: ...


class SocketContextSource:
    """The daemon, through the caller's client, which the caller has to close.

    If the daemon is not listening, this does not wait for it to start, so as not to delay the LLM call.
    """

    def __init__(self, client: AsyncClient, *, budget_tokens: int | None = None) -> None:
        self._client = client.within(client.timeout_s)
        self._client.start_timeout_s = 0.0
        self._budget_tokens = budget_tokens

    async def context(self, question: ContextQuestion, /) -> GivenContext:
        options: ContextOptions = {
            "session": question.scope.session,
            "budget_tokens": self._budget_tokens,
            "position": question.position,
            "present": latest(question.present, MAX_PRESENT_BYTES),
        }
        if question.scope.namespaces:
            options["namespaces"] = list(question.scope.namespaces)
        return GivenContext.of(await self._client.context(question.text, **options))


class ServiceContextSource:
    """A `RAGService` in this process. `settings` defaults to those of `embedding.rag`."""

    def __init__(
        self,
        service: RAGService,
        settings: RagSettings | None = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> None:
        from agentctx.config.embedding import RagSettings

        self._service = service
        self._settings = settings or RagSettings()
        self._namespace = namespace

    async def context(self, question: ContextQuestion, /) -> GivenContext:
        from agentctx.service.rag.question import Question
        from agentctx.storage.search import Filter

        if not self._settings.enabled:
            return GivenContext(block="", degraded="off: embedding.rag.enabled is false")
        first, *also = question.scope.namespaces or (self._namespace,)
        wanted = Filter(
            namespace=first,
            collections=self._settings.collections,
            session=question.scope.session,
        )
        context = await self._service.context(
            Question(
                text=question.text,
                filter=wanted,
                also=tuple(also),
                limit=self._settings.max_results,
                order="relevance",
                max_distance=self._settings.max_distance,
                position=question.position,
                present=latest(question.present, MAX_PRESENT_BYTES),
                deadline_s=None if question.deadline_s is None else MEANING_SHARE * question.deadline_s,
            ),
            budget_tokens=self._settings.budget_tokens,
        )
        return GivenContext(
            block=context.block,
            tokens=context.tokens,
            degraded=context.degraded,
            ids=tuple(dict.fromkeys(hit.entry.id for hit in context.hits)),
        )


def latest(texts: Sequence[str], max_bytes: int) -> list[str]:
    """Return the latest texts that fit into `max_bytes` of UTF-8, in order, as valid Unicode.

    Texts far back are the least likely to be repeated.
    """
    kept: list[str] = []
    for text in reversed(texts):
        encoded = text.encode("utf-8", "replace")
        max_bytes -= len(encoded)
        if max_bytes < 0:
            break
        kept.append(encoded.decode())
    return kept[::-1]
