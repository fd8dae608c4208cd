"""Add context to a body within a deadline. Never fails: errors are reported, and the call goes out."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Generic, TypeVar

from agentctx.errors import AgentctxError, DeadlineExceeded, TooLarge
from agentctx.llm.context_source import ContextQuestion, ContextSource, GivenContext
from agentctx.llm.conversation import Conversation, ConversationMemory, conversation_key, reply_key
from agentctx.llm.dialects.base import Dialect
from agentctx.llm.dialects.content import Body
from agentctx.llm.injection import ModelCall, ParsedCall, texts_present, to_retrieve
from agentctx.llm.scope import Scope
from agentctx.service.telemetry.labels import failure_code
from agentctx.telemetry import NO_TELEMETRY, Telemetry
from agentctx.wire.protocol import InjectionPosition

DEADLINE_S = 0.3

B = TypeVar("B")
T = TypeVar("T")

NEW = "new"
"""A block was retrieved for this call."""
AGAIN = "again"
"""The body contains only blocks of earlier calls."""
OFF = "off"
"""The call opted out of context."""
NO_QUESTION = "no_question"
"""The body contains no question in text, or cannot be read."""
NOTHING_RELEVANT = "nothing_relevant"
NO_PLACE = "no_place"
"""The body has no place for a block, such as a system prompt in Gemini's cache."""
TOO_LARGE = TooLarge.code
"""The body is larger than is read."""
REFUSED = "refused"
"""The vendor refused the call with its block, or such calls before, so it went without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall(Generic[B]):
    """A call that is ready to go out."""

    body: B
    """The original object if nothing was injected."""
    outcome: str
    """`new`, `again`, or why this call's question has no block: a constant above, or an error code."""
    context: GivenContext | None = None
    """The context retrieved for this call."""
    key: str | None = None
    turn: str | None = None
    ids: tuple[str, ...] = ()
    """The entries in all blocks of the conversation: this call's first, then the most recent."""
    model: str = ""
    """The model that the body names."""


class FailureLog:
    """Logs why calls have no context: once, until the reason changes or context arrives."""

    def __init__(self) -> None:
        self._last = ""

    def report(self, error: Exception) -> None:
        reason = f"{failure_code(error)}: {type(error).__name__}"
        if reason != self._last:
            self._last = reason
            _warn(failure_code(error), error)

    def end(self) -> None:
        self._last = ""


@dataclass
class Injector:
    """Prepares LLM calls for the adapter and the proxy."""

    source: ContextSource
    """Provides the blocks."""
    position: InjectionPosition = "system"
    """`system`, the end of the system prompt; or `tail`, the end of the last user turn."""
    deadline_s: float = DEADLINE_S
    """How long to wait for the source."""
    conversations: ConversationMemory = field(default_factory=ConversationMemory)
    """Stores earlier blocks; by default in this process."""
    telemetry: Telemetry = NO_TELEMETRY
    """Receives the outcome of each call."""
    failures: FailureLog = field(default_factory=FailureLog)
    """Shared by injectors that report the same failure only once."""
    rests: Callable[[str], bool] = lambda _: False
    """Returns whether calls to a model go without context now."""
    outcomes: Counter[str] = field(default_factory=Counter, init=False)
    """Number of calls by outcome."""

    async def prepare(self, dialect: Dialect, body: Body, scope: Scope) -> PreparedCall[Body]:
        """Like `prepare_call`, for a body that is already parsed."""
        return await self.prepare_call(ParsedCall(dialect, body), scope)

    async def prepare_call(self, call: ModelCall[B], scope: Scope) -> PreparedCall[B]:
        """Return the call with its context. Raises nothing but the caller's own cancellation."""
        try:
            prepared = await self._with_context(call, scope)
        except Exception as error:  # noqa: BLE001 - not even our own bugs may fail an LLM call
            self.failures.report(error)
            prepared = PreparedCall(body=call.body, outcome=failure_code(error))
        self._count(prepared.outcome)
        return prepared

    def replied(self, dialect: Dialect, prepared: PreparedCall[Body], scope: Scope, reply: Any) -> bool:
        """Note the reply of a call, or an event of its stream; return True when nothing is left to note."""
        if prepared.key is None:
            return True
        try:
            key = reply_key(dialect, prepared.body, scope, reply)
            if key is not None:
                self.conversations.link(key, prepared.key, prepared.turn)
        except Exception as error:  # noqa: BLE001 - the model has answered: nothing of ours may break that
            self.failures.report(error)
            return True
        return key is not None

    def refused(self, prepared: PreparedCall[B], body: B) -> PreparedCall[B]:
        """Return a call that was refused with its context and taken with the original body. The blocks of
        the conversation are dropped, or the vendor would refuse its next call too.
        """
        if prepared.key is not None:
            self.conversations.clear(prepared.key)
        self._count(REFUSED)
        own = prepared.context.ids if prepared.context else ()
        ids = tuple(each for each in prepared.ids if each not in own)
        return replace(prepared, body=body, outcome=REFUSED, context=None, ids=ids)

    async def _with_context(self, call: ModelCall[B], scope: Scope) -> PreparedCall[B]:
        if scope.is_off:
            return PreparedCall(body=call.body, outcome=OFF)
        request = await _run(call, call.read)
        if self.rests(request.model):
            return PreparedCall(body=call.body, outcome=REFUSED, model=request.model)
        key = conversation_key(request.conversation, scope)
        given = Conversation() if key is None else self.conversations.recall(key)
        context, failure = None, None
        text = to_retrieve(request, given)
        if text is not None:
            question = ContextQuestion(
                text=text,
                scope=scope,
                position=self.position,
                present=texts_present(request, self.position, given),
                deadline_s=self.deadline_s,
            )
            context, failure = await self._retrieve(question)
        new = None if context is None else context.block
        injected = await _run(call, call.inject, self.position, given, new)
        if key is not None and text is not None and request.turn is not None:
            self.conversations.remember(key, request.turn, new, context.ids if context else ())
        earlier = chain.from_iterable(reversed(list(given.ids.values())))
        return PreparedCall(
            body=injected,
            outcome=failure or _outcome(text, new, is_changed=injected is not call.body),
            context=context,
            key=key,
            turn=request.turn,
            ids=tuple(dict.fromkeys([*(context.ids if context else ()), *earlier])),
            model=request.model,
        )

    async def _retrieve(self, question: ContextQuestion) -> tuple[GivenContext | None, str | None]:
        try:
            async with asyncio.timeout(self.deadline_s):
                context = await self.source.context(question)
        except TimeoutError:
            error = DeadlineExceeded(f"No context arrived within {self.deadline_s:g} s.")
            self.failures.report(error)
            return None, error.code
        except Exception as error:  # noqa: BLE001 - the call goes out, no matter what a source raises
            self.failures.report(error)
            return None, failure_code(error)
        self.failures.end()
        return context, None

    def _count(self, outcome: str) -> None:
        self.outcomes[outcome] += 1
        if outcome in {NEW, AGAIN}:
            self.telemetry.injected(self.position, outcome)
        else:
            self.telemetry.not_injected(outcome)


async def _run(call: ModelCall[Any], step: Callable[..., T], *args: Any) -> T:
    return await asyncio.to_thread(step, *args) if call.is_large else step(*args)


def _outcome(question: str | None, new: str | None, *, is_changed: bool) -> str:
    if question is None:
        return AGAIN if is_changed else NO_QUESTION
    if not new:
        return NOTHING_RELEVANT
    return NEW if is_changed else NO_PLACE


def _warn(reason: str, error: Exception) -> None:
    # Our own errors contain no texts; for other errors, only the class is reported.
    text = error.message if isinstance(error, AgentctxError) else type(error).__name__
    import structlog

    if structlog.is_configured():
        structlog.get_logger("agentctx.model_adapters").warning("context_left_out", reason=reason, error=text)
    else:  # structlog's default writes to stdout, which belongs to the host program
        logging.getLogger("agentctx.model_adapters").warning("LLM calls go out without context: %s", text)
