"""Make one provider call: with a timeout, a checked reply, failures as values, and cancellation on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from typing import Any, Final

from agentctx.embedding.providers.base import EmbeddingProvider, check_reply
from agentctx.embedding.providers.canary import CANARY, CANARY_S
from agentctx.embedding.queue.batch import Batch, jobs_of
from agentctx.embedding.queue.retry import Failure, failure_of, timeout_failure
from agentctx.embedding.queue.timing import Alarm, Timer, alarm_at
from agentctx.storage.vectors import Vectors
from agentctx.telemetry import NO_TELEMETRY, Telemetry

RECALL_AFTER_MS: Final = 3_000
"""How long an erased text may stay at the provider: a forgotten text must be gone after five seconds.

A call that ends in time is not cancelled, so that constant saving and forgetting does not starve other jobs.
"""


class InFlight:
    """The batch at the provider, one at a time, and the entries erased meanwhile."""

    def __init__(self, timer: Timer) -> None:
        self.jobs: Batch = ()
        """The jobs of the call, until its outcome has been processed."""
        self._erased: set[str] = set()
        self._timer = timer
        self._call: asyncio.Task[Vectors | Failure] | None = None
        self._alarm: Alarm | None = None

    async def wait(
        self, batch: Batch, call: Coroutine[Any, Any, Vectors | Failure]
    ) -> Vectors | Failure | None:
        """Wait for the reply to a batch; None if the call was given up because a text was erased.

        The call has ended when this returns, even if this is cancelled.
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
        """Note erased entries: a call that contains one of them may not run much longer."""
        erased = {job.entry for job in jobs_of(entries, self.jobs)}
        self._erased |= erased
        if erased and self._call is not None and self._alarm is None:
            self._alarm = self._timer.call_at(self._timer.now() + RECALL_AFTER_MS, self._call.cancel)

    def end(self) -> set[str]:
        """Finish the batch and return the entries erased meanwhile, whose remains must be dropped."""
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
    """Return vectors `(len(texts), dimension)`, finite and of unit length, or the failure.

    The provider's own call has ended when this returns, even after a timeout or a cancellation.
    """
    with telemetry.embedding("batch", len(texts)) as embedding:
        reply = await _within(_embed(provider, texts), timeout_s, timer)
        if isinstance(reply, Failure):
            embedding.ended(reply.disposition.value)
    return reply


async def ask_canary(
    provider: EmbeddingProvider,
    *,
    timer: Timer,
    telemetry: Telemetry = NO_TELEMETRY,
    as_question: bool = False,
) -> Failure | None:
    """Embed the canary, as a text or on the questions' lane; return why it failed, or None."""
    with telemetry.embedding("canary", 1) as embedding:
        asked = _embed(provider, [CANARY], as_question=as_question)
        reply = await _within(asked, CANARY_S + provider.limits.longest_wait_s, timer)
        if isinstance(reply, Failure):
            embedding.ended(reply.disposition.value)
            return reply
    return None


async def _within(
    asked: Coroutine[Any, Any, Vectors | Failure], timeout_s: float, timer: Timer
) -> Vectors | Failure:
    call = asyncio.create_task(asked)
    try:
        with alarm_at(timer, timer.now() + round(timeout_s * 1000), call.cancel):
            await asyncio.wait({call})
    except asyncio.CancelledError:
        call.cancel()
        await asyncio.wait({call})
        raise
    return timeout_failure(timeout_s) if call.cancelled() else call.result()


async def _embed(
    provider: EmbeddingProvider, texts: Sequence[str], *, as_question: bool = False
) -> Vectors | Failure:
    try:
        if as_question:
            return await provider.embed_query(texts[0])
        reply = await provider.embed(texts)
        return check_reply(reply, count=len(texts), dimension=provider.dimension)
    except Exception as error:  # noqa: BLE001 - anything that a provider raises is the provider's fault
        return failure_of(error)
