"""One provider call: under a timeout, with a checked reply, failures as values, given up on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from typing import Any, Final

from agentctx.embedding_providers.base import EmbeddingProvider, Vectors, check_reply
from agentctx.embedding_queue.batch import Batch, jobs_of
from agentctx.embedding_queue.retry import Failure, failure_of, no_answer
from agentctx.embedding_queue.timing import Alarm, Timer
from agentctx.telemetry.base import NO_TELEMETRY, Telemetry

RECALL_AFTER_MS: Final = 3_000
"""An erased text may be at the provider that long: what is forgotten is gone after five seconds.

A call that ends in time is left alone: who saves and forgets all the time must not keep the others waiting.
"""


class InFlight:
    """The batch at the provider, one at a time, and the entries that were erased meanwhile."""

    def __init__(self, timer: Timer) -> None:
        self.jobs: Batch = ()
        """Of the call, until its outcome is dealt with."""
        self._erased: set[str] = set()
        self._timer = timer
        self._call: asyncio.Task[Vectors | Failure] | None = None
        self._alarm: Alarm | None = None

    async def wait(
        self, batch: Batch, call: Coroutine[Any, Any, Vectors | Failure]
    ) -> Vectors | Failure | None:
        """The reply to a batch; None when it was given up for an erased text.

        The call has ended when this returns, also when it is cancelled.
        """
        self.jobs = batch
        self._call = running = asyncio.create_task(call, name="provider call")
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait({running})
            raise
        finally:
            self._call = None
            if self._alarm is not None:
                self._alarm.cancel()
                self._alarm = None
        return None if running.cancelled() else running.result()

    def drop(self, entries: Collection[str]) -> None:
        """These entries were erased: a call that contains one may not continue for long."""
        erased = {job.entry for job in jobs_of(entries, self.jobs)}
        self._erased |= erased
        if erased and self._call is not None and self._alarm is None:
            self._alarm = self._timer.call_at(self._timer.now() + RECALL_AFTER_MS, self._call.cancel)

    def end(self) -> set[str]:
        """The outcome is dealt with: of what was erased meanwhile, nothing may be left behind."""
        self.jobs = ()
        erased, self._erased = self._erased, set()
        return erased


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
