"""How much of a long conversation the vendors' prompt caches hit, by position of the injected context.

No vendor is called: the caches are simulated from the published rules (`benchmarks.vendor_caches`). Tokens of
our own blocks do not count.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from agentctx.llm.context_source import ContextQuestion, GivenContext
from agentctx.llm.dialects.registry import find_dialect
from agentctx.llm.injector import AGAIN, NEW, Injector
from agentctx.llm.scope import Scope
from agentctx.service.rag.render import HEADING, BlockPassage, render
from agentctx.wire.protocol import InjectionPosition
from benchmarks import tool_conversation as conversations
from benchmarks.figures import Figure, at_least
from benchmarks.options import Options
from benchmarks.prompt_blocks import (
    PromptBlock,
    anthropic_blocks,
    gemini_blocks,
    ollama_blocks,
    openai_chat_blocks,
    openai_responses_blocks,
)
from benchmarks.texts import TextSource
from benchmarks.tool_conversation import MODEL_ANTHROPIC, MODEL_GEMINI, Body, Conversation, Step
from benchmarks.vendor_caches import AnthropicCache, PrefixCache, PromptUsage

TURNS, QUICK_TURNS = 40, 12
LEAST_KEPT = 0.98
STEP_MS = 10_000
"""Time between two model calls; well below every vendor's five minutes."""
_PASSAGES = 3
_SECRET = b"benchmark"

Ask: TypeAlias = Callable[[Body, int], PromptUsage]
Inject: TypeAlias = "Callable[[Api, Body], Awaitable[Body]]"


@dataclass(frozen=True, slots=True)
class Api:
    """One way to talk to a vendor. `open_cache` returns an empty cache of the vendor."""

    name: str
    dialect: str
    body: Callable[[Conversation, Sequence[Step]], Body]
    blocks: Callable[[Body], list[PromptBlock]]
    open_cache: Callable[[], Ask]


@dataclass(frozen=True, slots=True)
class Replayed:
    """The tokens of all calls of a conversation; tokens of injected blocks count only in `injected`."""

    prompt: int
    cached: int
    injected: int = 0


class RenderedBlocks:
    """A context source with a different block for each question."""

    def __init__(self, questions: Sequence[str]) -> None:
        source = TextSource(seed=5)
        self._blocks = {question: render(_passages(source), secret=_SECRET) for question in questions}

    async def context(self, question: ContextQuestion, /) -> GivenContext:
        return GivenContext(block=self._blocks[question.text])


async def measure(options: Options) -> list[Figure]:
    """The tail is judged, separately for each API."""
    conversation = conversations.converse(options.size(TURNS, QUICK_TURNS))
    figures: list[Figure] = []
    for api in APIS:
        none = await replay(api, conversation)
        tail = await replay(api, conversation, injecting(conversation, "tail"))
        system = await replay(api, conversation, injecting(conversation, "system"))
        figures += _figures(api.name, none, tail, system)
    return figures


def injecting(conversation: Conversation, position: InjectionPosition) -> Inject:
    """Inject like the adapter and the proxy. Raises `RuntimeError` if a call gets no context."""
    injector = Injector(RenderedBlocks(conversation.questions), position=position, deadline_s=60)

    async def inject(api: Api, body: Body) -> Body:
        prepared = await injector.prepare(find_dialect(api.dialect), body, Scope())
        if prepared.outcome not in {NEW, AGAIN}:
            raise RuntimeError(f"a call of {api.name} had no context: {prepared.outcome}")
        return dict(prepared.body)

    return inject


async def replay(api: Api, conversation: Conversation, inject: Inject | None = None) -> Replayed:
    """Return all calls of the conversation, each with the context that `inject` adds."""
    ask = api.open_cache()
    total = Replayed(0, 0)
    for number, steps in enumerate(conversation.requests()):
        body = api.body(conversation, steps)
        if inject:
            body = await inject(api, body)
        blocks = api.blocks(body)
        usage = ask(body, number * STEP_MS)
        own = own_tokens(blocks)
        ours = sum(length for _, length in own)
        read = sum(_overlap(start, length, usage.cached) for start, length in own)
        total = Replayed(
            total.prompt + usage.tokens - ours, total.cached + usage.cached - read, total.injected + ours
        )
    return total


def own_tokens(blocks: Sequence[PromptBlock]) -> list[tuple[int, int]]:
    """Return first token and length of our blocks in a prompt. Each ends with a block of the prompt."""
    found = []
    start = 0
    for block in blocks:
        content = b"".join(block.tokens[1:])
        at = content.find(HEADING.encode())
        if at >= 0:
            before = 1 + at // 4 if at else 0
            found.append((start + before, len(block.tokens) - before))
        start += len(block.tokens)
    return found


def _overlap(start: int, length: int, cached: int) -> int:
    return max(0, min(length, cached - start))


def _figures(name: str, none: Replayed, tail: Replayed, system: Replayed) -> list[Figure]:
    least = at_least(LEAST_KEPT * none.cached, f"{LEAST_KEPT:.0%} of none")
    return [
        Figure(name=f"{name}: cached, no injection", value=none.cached, unit="tokens", baseline=none.prompt),
        Figure(
            name=f"{name}: cached, tail", value=tail.cached, unit="tokens", baseline=none.cached, bar=least
        ),
        Figure(name=f"{name}: cached, system", value=system.cached, unit="tokens", baseline=none.cached),
        Figure(
            name=f"{name}: not cached because of system", value=none.cached - system.cached, unit="tokens"
        ),
    ]


def _passages(source: TextSource) -> list[BlockPassage]:
    return [
        BlockPassage(
            collection="memory",
            source=source.name(),
            date="2026-05-01",
            trust="agent",
            content=source.text(500),
        )
        for _ in range(_PASSAGES)
    ]


def _anthropic() -> Ask:
    cache = AnthropicCache()
    return lambda body, now_ms: cache.ask(
        MODEL_ANTHROPIC, anthropic_blocks(body), body.get("cache_control"), now_ms=now_ms
    )


def _automatic(
    blocks: Callable[[Body], list[PromptBlock]], open_cache: Callable[[], PrefixCache]
) -> Callable[[], Ask]:
    def opened() -> Ask:
        cache = open_cache()
        return lambda body, now_ms: cache.ask(blocks(body), now_ms=now_ms)

    return opened


APIS = (
    Api(
        "OpenAI chat",
        "openai_chat",
        conversations.openai_chat,
        openai_chat_blocks,
        _automatic(openai_chat_blocks, PrefixCache.openai),
    ),
    Api(
        "OpenAI Responses",
        "openai_responses",
        conversations.openai_responses,
        openai_responses_blocks,
        _automatic(openai_responses_blocks, PrefixCache.openai),
    ),
    Api(
        "Anthropic, automatic",
        "anthropic_messages",
        conversations.anthropic_automatic,
        anthropic_blocks,
        _anthropic,
    ),
    Api(
        "Anthropic, breakpoints",
        "anthropic_messages",
        conversations.anthropic_breakpoints,
        anthropic_blocks,
        _anthropic,
    ),
    Api(
        "Gemini",
        "gemini",
        conversations.gemini,
        gemini_blocks,
        _automatic(gemini_blocks, lambda: PrefixCache.gemini(MODEL_GEMINI)),
    ),
    Api(
        "Ollama",
        "ollama",
        conversations.ollama,
        ollama_blocks,
        _automatic(ollama_blocks, PrefixCache.ollama),
    ),
)
