"""Where the block comes from: the daemon over its socket, or a `RAGService` in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from agentctx.model_adapters.scope import Scope
from agentctx.wire.names import DEFAULT_NAMESPACE, InjectionPosition

if TYPE_CHECKING:
    from agentctx.client.async_client import AsyncClient
    from agentctx.client.options import ContextOptions
    from agentctx.config.embedding import RagSettings
    from agentctx.rag.service import RAGService

MOST_PRESENT_BYTES = 256 * 1024
"""Of the texts sent to the daemon with a question: they must fit into its largest request."""

MEANING_SHARE = 0.75
"""Of the deadline; the rest is for a keyword search, when the embedder is slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextQuestion:
    """What is asked for one LLM call. `present` are the texts that the model will read anyway."""

    text: str
    scope: Scope = field(default_factory=Scope)
    position: InjectionPosition = "system"
    present: Sequence[str] = ()
    deadline_s: float | None = None
    """Seconds after which the caller stops waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenContext:
    """The block for one LLM call; empty when nothing is relevant."""

    block: str
    tokens: int = 0
    """An estimate."""
    injection_id: str | None = None
    """Of the receipt, where the source keeps one."""
    degraded: str | None = None
    """Why meaning had no part in it."""
    ids: tuple[str, ...] = ()
    """Of the entries in the block, in its order."""


class ContextSource(Protocol):
    """Gives the context of a call. May be slow or raise anything: the call goes out all the same."""

    async def context(self, question: ContextQuestion, /) -> GivenContext: ...


class SocketContextSource:
    """The daemon, through a client of the caller's, which stays open until the caller closes it.

    A daemon that does not listen is not waited for: an LLM call does not wait until it has started.
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
            "present": latest(question.present, MOST_PRESENT_BYTES),
        }
        if question.scope.namespace:
            options["namespace"] = question.scope.namespace
        reply = await self._client.context(question.text, **options)
        return GivenContext(
            block=reply.block,
            tokens=reply.tokens,
            injection_id=reply.injection_id,
            degraded=reply.degraded,
            ids=tuple(dict.fromkeys(passage.id for passage in reply.results)),
        )


class ServiceContextSource:
    """A `RAGService` in this process. `settings` default to the defaults of `embedding.rag`."""

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
        from agentctx.rag.question import Question
        from agentctx.storage.records import Filter

        if not self._settings.enabled:
            return GivenContext(block="", degraded="off: embedding.rag.enabled is false")
        wanted = Filter(
            namespace=question.scope.namespace or self._namespace,
            collections=self._settings.collections,
            session=question.scope.session,
        )
        context = await self._service.context(
            Question(
                text=question.text,
                wanted=wanted,
                limit=self._settings.max_results,
                order="relevance",
                max_distance=self._settings.max_distance,
                position=question.position,
                present=latest(question.present, MOST_PRESENT_BYTES),
                deadline_s=None if question.deadline_s is None else MEANING_SHARE * question.deadline_s,
            ),
            budget_tokens=self._settings.budget_tokens,
        )
        return GivenContext(
            block=context.block,
            tokens=context.tokens,
            degraded=context.degraded,
            ids=tuple(dict.fromkeys(hit.chunk.entry.id for hit in context.hits)),
        )


def latest(texts: Sequence[str], most_bytes: int) -> list[str]:
    """The last texts that fit into so many bytes of UTF-8, in their order, as valid Unicode.

    What is far back is the least likely to be said again.
    """
    kept: list[str] = []
    for text in reversed(texts):
        encoded = text.encode("utf-8", "replace")
        most_bytes -= len(encoded)
        if most_bytes < 0:
            break
        kept.append(encoded.decode())
    return kept[::-1]
