"""Find out whether a text or the provider is at fault, with the canary as witness, and tell the breaker."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Final

from agentctx.config.embedding import QueueSettings
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.queue.batch import Batch
from agentctx.embedding.queue.breaker import SUSPECTED, Breaker
from agentctx.embedding.queue.call import ask_canary
from agentctx.embedding.queue.retry import (
    LIMITS_IN_A_ROW,
    Backoff,
    Failure,
    RetryVerdict,
    decide,
    is_limit,
    needs_canary,
    pause_until,
)
from agentctx.embedding.queue.timing import Timer, sleep
from agentctx.errors import Disposition
from agentctx.telemetry import Telemetry

FRESH_MS: Final = 5_000
"""How long a success shows that the provider is well."""
SLOW_MS: Final = 10_000
"""A call that takes longer is accompanied by a canary: does the provider hang, or is it slow?"""


class Diagnosis:
    """The health of one provider, and what its failures say about texts."""

    def __init__(
        self,
        provider: EmbeddingProvider,
        settings: QueueSettings,
        *,
        timer: Timer,
        rng: random.Random,
        telemetry: Telemetry,
    ) -> None:
        self._provider = provider
        self._timer = timer
        self._rng = rng
        self._telemetry = telemetry
        self._backoff = Backoff(settings.backoff_base_s, settings.backoff_max_s)
        self._patience = 2 * settings.breaker_failures
        self.breaker = Breaker(failures=settings.breaker_failures, rng=rng)
        self._capped_until = 0
        self._answered_at = -FRESH_MS
        self._is_suspected = False
        self._tries: Counter[int] = Counter()
        """How often each job's text failed alone while the provider was well."""
        self._blamed = 0
        """How often texts were blamed since one was embedded."""
        self.rests_until = 0
        """When texts may be sent again after many were blamed in a row (milliseconds)."""

    @property
    def is_hopeless(self) -> bool:
        """Whether waiting for the provider, or for one of our limits, may take long."""
        return self.breaker.is_open or self._timer.now() < self._capped_until

    def suspect(self) -> None:
        """Ask the canary soon, because a call elsewhere failed."""
        self._is_suspected = True

    def probe_at(self) -> int | None:
        """Return when to ask the canary; None while nobody suspects the provider."""
        if self._is_suspected and self._is_fresh():
            self._is_suspected = False
        return self.breaker.until if self._is_suspected or self.breaker.is_probing else None

    async def probe(self) -> None:
        failure = await self._ask_canary()
        if failure is None:
            self.breaker.succeeded()
        else:
            self._blame(failure)

    async def watch_slow_call(self) -> None:
        """Ask the canary beside a call that takes long, on the questions' lane."""
        await sleep(self._timer, SLOW_MS + round(self._provider.limits.longest_wait_s * 1_000))
        failure = await self._ask_canary(as_question=True)
        if failure is not None:
            self._blame(failure)

    def embedded(self) -> None:
        """Note that texts were embedded."""
        self.breaker.succeeded()
        self._answered_at, self._blamed = self._timer.now(), 0

    async def judge(self, batch: Batch, failure: Failure) -> RetryVerdict:
        """Decide what to do with a failed batch; asks the canary if only that can tell."""
        tries = self._tries[batch[0].id]
        canary = failure if self.breaker.is_probing else None
        if canary is None and needs_canary(batch, failure, tries=tries, is_fresh=self._is_fresh()):
            canary = await self._ask_canary()
        verdict = decide(
            batch,
            failure,
            canary=canary,
            tries=tries,
            now=self._timer.now(),
            backoff=self._backoff,
            rng=self._rng,
        )
        if verdict.fault is not None:
            self._blame(verdict.fault)
        elif not failure.is_ours:
            self._rest()
        if len(batch) == 1 and (verdict.fault is None or (is_limit(failure) and tries < LIMITS_IN_A_ROW)):
            self._tries[batch[0].id] += 1
        return verdict

    def forget(self, jobs: Iterable[int]) -> None:
        """Forget the tries of jobs that have ended."""
        for job in jobs:
            self._tries.pop(job, None)

    async def _ask_canary(self, *, as_question: bool = False) -> Failure | None:
        """Return why the canary is not embedded; None if it is."""
        self._is_suspected = False
        failure = await ask_canary(
            self._provider, timer=self._timer, telemetry=self._telemetry, as_question=as_question
        )
        if failure is None:
            self._answered_at = self._timer.now()
        return failure

    def _is_fresh(self) -> bool:
        return self._timer.now() - self._answered_at < FRESH_MS

    def _blame(self, failure: Failure) -> None:
        """Tell the breaker what the provider, or one of our own limits, did."""
        now = self._timer.now()
        until = pause_until(failure, now)
        if failure.is_ours:
            self.breaker.hold(until, failure.reason)
            self._capped_until = until
            return
        if is_limit(failure):
            self.breaker.limited(now, until, failure.reason)
        if not is_limit(failure) or self.breaker.is_probing:
            stop = failure.disposition is Disposition.STOP
            self.breaker.failed(now, failure.reason, stop=stop, at_once=failure.is_silent)

    def _rest(self) -> None:
        """If one text after the other fails, go on more slowly: it may be the provider after all."""
        self._blamed += 1
        if self._blamed >= self._patience:
            pause_ms = SUSPECTED.delay_ms(self._blamed - self._patience, self._rng)
            self.rests_until = self._timer.now() + pause_ms
