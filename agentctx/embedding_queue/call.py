"""One provider call: under a timeout, with a checked reply, and with failures as values."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agentctx.embedding_providers.base import EmbeddingProvider, Vectors, check_reply
from agentctx.embedding_queue.retry import Failure, failure_of, no_answer
from agentctx.embedding_queue.timing import Timer
from agentctx.telemetry.base import NO_TELEMETRY, Telemetry


async def call_provider(
    provider: EmbeddingProvider,
    texts: Sequence[str],
    *,
    timeout_s: float,
    timer: Timer,
    telemetry: Telemetry = NO_TELEMETRY,
) -> Vectors | Failure:
    """The vectors `(len(texts), dimension)`, finite and of unit length, or why there are none.

    The provider's own call has ended when this returns, also after a timeout or when this is cancelled.
    """
    with telemetry.embedding("batch", len(texts)) as embedding:
        reply = await _call_within(provider, texts, timeout_s, timer)
        if isinstance(reply, Failure):
            embedding.ended(reply.disposition.value)
    return reply


async def _call_within(
    provider: EmbeddingProvider, texts: Sequence[str], timeout_s: float, timer: Timer
) -> Vectors | Failure:
    call = asyncio.create_task(_embed(provider, texts))
    alarm = timer.call_at(timer.now() + round(timeout_s * 1000), call.cancel)
    try:
        await asyncio.wait({call})
    except asyncio.CancelledError:
        call.cancel()
        await asyncio.wait({call})
        raise
    finally:
        alarm.cancel()
    return no_answer(timeout_s) if call.cancelled() else call.result()


async def _embed(provider: EmbeddingProvider, texts: Sequence[str]) -> Vectors | Failure:
    try:
        reply = await provider.embed(texts)
        return check_reply(reply, count=len(texts), dimension=provider.dimension)
    except Exception as error:  # noqa: BLE001 - whatever a provider raises is a fault of the provider
        return failure_of(error)
