"""`ContextAwareModelAdapter`: a model whose calls all carry context from agentctx."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import Any, Final, Unpack

from agentctx.errors import InvalidInput
from agentctx.llm.base import ModelAdapter, ModelRequest
from agentctx.llm.context_source import ContextSource
from agentctx.llm.conversation import ConversationMemory
from agentctx.llm.dialects.base import Dialect
from agentctx.llm.dialects.content import Body
from agentctx.llm.dialects.registry import find_dialect
from agentctx.llm.injector import DEADLINE_S, Injector, PreparedCall
from agentctx.llm.scope import Caller, Scope, scope_of
from agentctx.service.refusals import Refusals, refused_with
from agentctx.telemetry import NO_TELEMETRY, Telemetry
from agentctx.wire.protocol import InjectionPosition

_UPSTREAM: Final = ""
"""The adapter has one model, whose address it does not know."""


class ContextAwareModelAdapter:
    """A `ModelAdapter` that wraps another and injects the section "Semantic Context (RAG)" before each call.

    The injection never makes a call fail or wait longer than `deadline_s`. If no context arrives, the call
    goes out unchanged, and the reason is logged, reported to `telemetry` and counted in `outcomes`. If the
    model refuses a changed request (an exception with the status 400, 413 or 422, as those of the vendors'
    SDKs have) before any piece of a reply, the request goes once more as it came; after three refusals in a
    row, those to the same model go without context for a day.

    Args:
        model: the model to call.
        source: where the context comes from.
        dialect: the format of the requests, or its name; by default the one that the model declares.
        position: `system`, the end of the system prompt, with entries that agents and operators vouch for; or
            `tail`, the end of the last user turn, with all entries, where the vendor's prompt cache stays
            valid.
        deadline_s: seconds that a call waits for its context.
        enabled: False (`embedding.rag.enabled` of a config) passes every request on unchanged, without asking
            the source.
        conversations: where earlier blocks are kept, to be given again; by default in this process.
        telemetry: receives the outcome of each call.
        refusals: which models refused requests with context; by default known to this adapter alone.

    Raises:
        InvalidInput: the dialect is unknown, or neither the caller nor the model names one.
    """

    def __init__(
        self,
        model: ModelAdapter,
        source: ContextSource,
        *,
        dialect: Dialect | str | None = None,
        position: InjectionPosition = "system",
        deadline_s: float = DEADLINE_S,
        enabled: bool = True,
        conversations: ConversationMemory | None = None,
        telemetry: Telemetry = NO_TELEMETRY,
        refusals: Refusals | None = None,
    ) -> None:
        if position not in {"system", "tail"}:
            raise InvalidInput(f"Invalid position {position!r}.", hint="Use system or tail.")
        self._model = model
        self.dialect = _dialect_of(model, dialect)
        self._is_enabled = enabled
        self._refusals = refusals or Refusals()
        self._injector = Injector(
            source,
            position=position,
            deadline_s=deadline_s,
            conversations=conversations or ConversationMemory(),
            telemetry=telemetry,
            rests=lambda name: self._refusals.rests(_UPSTREAM, name),
        )
        self.outcomes: Mapping[str, int] = self._injector.outcomes
        """Number of calls by outcome: `new`, `again`, or why there was no block (see `injector.py`)."""

    async def complete(self, request: ModelRequest, /, **caller: Unpack[Caller]) -> Any:
        """Return the model's reply to the request with its context.

        `session`, `agent` and `namespace` identify the caller, as do `headers` (`X-Agentctx-Session`, …),
        which may also set `X-Agentctx-Inject: off`. Exceptions of the model propagate.
        """
        scope = scope_of(**caller)
        outgoing, prepared = await self._prepared(request, scope)
        status = None
        try:
            reply = await self._model.complete(outgoing)
        except Exception as error:
            if outgoing is request or (status := refused_with(error)) is None:
                raise
            reply = await self._model.complete(request)
        prepared = self._note_outcome(request, outgoing, prepared, status)
        self._injector.replied(self.dialect, prepared, scope, reply)
        return reply

    async def stream(self, request: ModelRequest, /, **caller: Unpack[Caller]) -> AsyncIterator[Any]:
        """Yield the pieces of the reply as the model produces them. Arguments as for `complete`."""
        scope = scope_of(**caller)
        outgoing, prepared = await self._prepared(request, scope)
        status, has_begun, is_noted = None, False, False
        for sent in (outgoing, request):
            try:
                async with aclosing(_closing(self._model.stream(sent))) as events:
                    async for event in events:
                        if not has_begun:
                            prepared = self._note_outcome(request, outgoing, prepared, status)
                        has_begun = True
                        is_noted = is_noted or self._injector.replied(self.dialect, prepared, scope, event)
                        yield event
                return
            except Exception as error:
                if has_begun or sent is request or (status := refused_with(error)) is None:
                    raise

    def _note_outcome(
        self, request: ModelRequest, outgoing: ModelRequest, prepared: PreparedCall[Body], status: int | None
    ) -> PreparedCall[Body]:
        """Note whether the model took the changed request; `status` is the one with which it refused."""
        if outgoing is request:
            return prepared
        if status is None:
            self._refusals.note_taken(_UPSTREAM, prepared.model)
            return prepared
        self._refusals.note_refused(_UPSTREAM, prepared.model, status)
        return self._injector.refused(prepared, request if isinstance(request, Mapping) else {})

    async def _prepared(self, request: ModelRequest, scope: Scope) -> tuple[ModelRequest, PreparedCall[Body]]:
        is_bare = isinstance(request, list | tuple) and self.dialect.is_messages_alone
        body = {"messages": request} if is_bare else request
        if not self._is_enabled or not isinstance(body, Mapping):
            return request, PreparedCall(body={}, outcome="off")
        prepared = await self._injector.prepare(self.dialect, body, scope)
        if prepared.body is body:
            return request, prepared
        return prepared.body["messages"] if is_bare else prepared.body, prepared


async def _closing(events: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    """Yield the events of a stream, and close it at the end if it can be closed."""
    async with AsyncExitStack() as stack:
        if callable(aclose := getattr(events, "aclose", None)):
            stack.push_async_callback(aclose)
        async for event in events:
            yield event


def _dialect_of(model: ModelAdapter, named: Dialect | str | None) -> Dialect:
    dialect = named if named is not None else getattr(model, "dialect", None)
    if isinstance(dialect, Dialect):
        return dialect
    if isinstance(dialect, str):
        return find_dialect(dialect)
    raise InvalidInput(
        "Cannot detect the model's request format.",
        hint='Pass it: ContextAwareModelAdapter(..., dialect="openai_chat").',
    )
