"""The queue itself: claim jobs, call the provider, store the vectors.

One provider call is in flight at a time; jobs that arrive meanwhile go into the next one. Every wait is for
an event: a new job, an alarm or a stop.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Sequence

import structlog

from agentctx.config.embedding import QueueSettings
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.queue.batch import Batch, Batcher
from agentctx.embedding.queue.call import InFlight, call_provider
from agentctx.embedding.queue.diagnosis import Diagnosis
from agentctx.embedding.queue.job_buffer import JobBuffer
from agentctx.embedding.queue.outcomes import JobOutcomes, Outcome
from agentctx.embedding.queue.retry import Failure
from agentctx.embedding.queue.status import QueueStatus, State
from agentctx.embedding.queue.table import JobTable, StorageAbandoned
from agentctx.embedding.queue.timing import LoopTimer, Timer, alarm_at
from agentctx.errors import Disposition, StorageFailed
from agentctx.storage.jobs import OutboxStorage
from agentctx.storage.records import Job
from agentctx.storage.vectors import Vectors
from agentctx.telemetry import NO_TELEMETRY, Telemetry
from agentctx.times import Clock

log = structlog.get_logger("agentctx.embedding_queue")

LONGEST_NAP_MS = 60_000
"""Alarms use a clock that stops while the machine sleeps, so the real one is checked this often."""


class EmbeddingQueue:
    """Embeds pending jobs in the background, in batches, of one space or of all if `space` returns None.

    The job table is the queue; memory holds up to `settings.capacity` jobs. All methods belong to one
    event loop. A queue is used once: create a new one to start again.
    """

    def __init__(
        self,
        storage: OutboxStorage,
        provider: EmbeddingProvider,
        settings: QueueSettings,
        *,
        clock: Clock,
        space: Callable[[], int | None] = lambda: None,
        timer: Timer | None = None,
        rng: random.Random | None = None,
        telemetry: Telemetry = NO_TELEMETRY,
    ) -> None:
        self._storage = storage
        self._telemetry = telemetry
        self._provider = provider
        self._settings = settings
        self._timer = timer or LoopTimer(clock)
        self._rng = rng or random.Random()  # noqa: S311 - spreads retries, guards nothing
        self._diagnosis = Diagnosis(provider, settings, timer=self._timer, rng=self._rng, telemetry=telemetry)
        self._breaker = self._diagnosis.breaker
        self._table = JobTable(storage, settings, space=space, timer=self._timer, rng=self._rng)
        size = min(settings.batch_size, settings.capacity)
        self._batcher = Batcher(size=size)
        self._buffer = JobBuffer(capacity=settings.capacity, low_water=max(settings.capacity // 4, size - 1))
        self._outcomes = JobOutcomes(self._timer)
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._finished = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        """The task made by `start`; done before a stop only if it failed."""
        self._work_task: asyncio.Task[None] | None = None
        self._is_stopping = self._is_hurried = self._is_halted = False
        self._pause_reason: str | None = None
        self._share = 1.0
        self._rests_until = 0
        self._in_flight = InFlight(self._timer)
        self._embedded_jobs = self._buried_jobs = self._stale_jobs = 0

    def enqueue(self, jobs: Sequence[Job]) -> None:
        """Accept jobs that have just been committed. Never blocks, drops jobs or raises.

        Jobs that do not fit in memory, or arrive after the end, wait in the table. Can serve as the stores'
        embed callback.
        """
        if not jobs or self._finished.is_set():
            return
        self._outcomes.reopen(job.id for job in jobs)
        self._buffer.offer(jobs)
        self._check_soon()

    def drop(self, entries: Collection[str]) -> None:
        """Drop the texts of erased entries: here at once, at the provider within seconds."""
        gone = self._batcher.drop(entries) + self._buffer.drop(entries)
        self._end(gone, Outcome.DONE)
        self._in_flight.drop(entries)
        self._wake.set()

    def recheck_table(self) -> None:
        """Check the table again: jobs may be due, because buried ones were retried or a space backfilled."""
        self._buffer.has_backlog = True
        self._check_soon()

    def suspect(self) -> None:
        """Ask the canary soon, because a call elsewhere failed: is the provider at fault?"""
        self._diagnosis.suspect()
        self._wake.set()

    def pause(self, reason: str) -> None:
        """Make no provider calls until `resume`. A call in flight ends normally; jobs are still accepted."""
        self._pause_reason = reason

    def resume(self) -> None:
        self._pause_reason = None
        self._wake.set()

    def throttle(self, share: float) -> None:
        """Spend at most this share of the time on batches, resting in between; 1 means no limit."""
        self._share = share
        self._rests_until = 0
        self._wake.set()

    def start(self) -> None:
        """Run in a separate task; a second call does nothing. `stop` raises what the task raised."""
        if self.task is None:
            self.task = asyncio.create_task(self.run(), name="embedding queue")

    async def run(self) -> None:
        """Work until `stop`. Use it in a `TaskGroup` instead of calling `start`.

        Provider failures and `StorageFailed` are handled; anything else is a bug and is raised.
        """
        if self._work_task is not None:
            raise RuntimeError("an EmbeddingQueue runs once")
        try:
            if not (self._is_halted or self._finished.is_set()):
                self._work_task = asyncio.create_task(self._work(), name="embedding queue work")
                await self._supervise(self._work_task)
        finally:
            self._finish()

    async def stop(self, timeout: float | None = None) -> None:
        """Embed all pending jobs in normal batches, then end.

        Without a timeout, only buried jobs remain: it waits until a paused queue is resumed, postponed jobs
        are due and the provider accepts calls again, however long that takes. It gives up if waiting may be
        futile: the breaker is open (the provider failed several times in a row, or refuses the key or model),
        the spending cap is reached, or the storage fails.

        With a timeout (seconds), it ends by then and waits for none of that: it embeds what can be sent now.

        Remaining jobs are safe in the table, for the next start. It may be called any number of times, also
        concurrently; the shortest timeout wins. Before `start` or `run` nothing is embedded.
        """
        self._is_stopping = True
        self._is_hurried = self._is_hurried or timeout is not None
        self._table.give_up()
        self._wake.set()
        if self._work_task is None and self.task is None:
            self._finish()
        at = None if timeout is None else self._timer.now() + round(timeout * 1000)
        with alarm_at(self._timer, at, self._halt):
            await self._finished.wait()
        if self.task is not None:
            await asyncio.wait({self.task})
            if not self.task.cancelled():
                self.task.result()

    async def wait_settled(
        self, job_ids: Collection[int], timeout: float | None = None
    ) -> dict[int, Outcome]:
        """Return how the jobs ended, once all have ended, `timeout` seconds are over or the queue has
        stopped.

        Jobs still open are missing from the result. Endings are remembered for some thousands of jobs; an id
        that is neither pending nor remembered is waited for like any other.
        """
        return await self._outcomes.wait(job_ids, timeout)

    async def idle(self) -> None:
        """Wait until nothing is in memory, at the provider or due in the table."""
        await self._idle.wait()

    def status(self) -> QueueStatus:
        state, reason = self._health()
        return QueueStatus(
            state=state,
            reason=reason,
            embedded=self._embedded_jobs,
            buried=self._buried_jobs,
            stale=self._stale_jobs,
        )

    def _health(self) -> tuple[State, str | None]:
        if self._table.reason is not None:
            return "degraded", self._table.reason
        if self._pause_reason is not None:
            return "starting", self._pause_reason
        if self._breaker.is_degraded(self._timer.now()):
            return "degraded", self._breaker.reason
        return "ok", None

    def _check_soon(self) -> None:
        self._idle.clear()
        self._wake.set()

    async def _supervise(self, work: asyncio.Task[None]) -> None:
        try:
            await asyncio.wait({work})
        finally:
            work.cancel()
            await asyncio.wait({work})
            await self._give_leases_back()
        if not work.cancelled():
            work.result()

    async def _give_leases_back(self) -> None:
        try:
            await self._storage.release_leases()
        except StorageFailed as error:
            # The next start releases them before anything else.
            log.warning("leases_not_released", error=error.code, reason=error.message)

    def _halt(self) -> None:
        self._is_halted = True
        if self._work_task is not None:
            self._work_task.cancel()

    def _finish(self) -> None:
        self._finished.set()
        self._outcomes.close()

    async def _work(self) -> None:
        try:
            await self._table.release_leases()
            while True:
                await self._refill()
                self._collect()
                if (at := self._probe_at()) is not None and at <= self._timer.now():
                    await self._diagnosis.probe()
                elif batch := self._next_batch():
                    await self._send(batch)
                elif self._is_stopping and await self._is_drained():
                    return
                else:
                    await self._sleep()
        except StorageAbandoned:
            log.warning("queue_stopped_early", reason=self._table.reason)

    async def _is_drained(self) -> bool:
        """Return whether a stop has nothing left to wait for, given that no batch can be sent."""
        if self._is_hurried:
            is_held = len(self._batcher) > 0 or self._pause_reason is not None
            return is_held or not self._buffer.has_backlog
        if self._diagnosis.is_hopeless:
            log.warning("queue_stopped_early", reason=self._breaker.reason)
            return True
        if self._buffer.is_empty:
            # The earlier value includes the leases of jobs that are done by now.
            self._buffer.due = await self._table.next_due()
        return self._buffer.due is None and self._buffer.is_empty

    async def _sleep(self) -> None:
        if self._buffer.is_empty:
            self._idle.set()
        times = [at for at in (self._send_at(), self._probe_at(), self._buffer.due) if at is not None]
        at = min(*times, self._timer.now() + LONGEST_NAP_MS) if times else None
        with alarm_at(self._timer, at, self._wake.set):
            await self._wake.wait()
        self._wake.clear()

    async def _refill(self) -> None:
        room = self._buffer.room(self._timer.now())
        if not room:
            return
        self._idle.clear()
        self._buffer.begin_claim()
        jobs = await self._table.claim(room, exclude=self._buffer.known)
        self._buffer.end_claim(jobs, asked=room)
        self._outcomes.reopen(job.id for job in jobs)
        if len(jobs) < room:
            due = await self._table.next_due()
            if due is not None:
                self._buffer.expect(due)

    def _collect(self) -> None:
        # A function of its own, so that no variable of the endless loop keeps an erased text.
        while not self._batcher.is_filled and (job := self._buffer.get()):
            self._batcher.add(job)

    def _send_at(self) -> int | None:
        """Return when the next call may be made; None if there is nothing to send or the queue is paused."""
        if not len(self._batcher) or self._pause_reason is not None or self._breaker.is_probing:
            return None
        rests_until = 0 if self._is_stopping else max(self._rests_until, self._diagnosis.rests_until)
        return max(rests_until, self._breaker.until)

    def _probe_at(self) -> int | None:
        """Return when to ask the canary; None if nobody suspects the provider or the queue is paused."""
        return None if self._pause_reason is not None else self._diagnosis.probe_at()

    def _next_batch(self) -> Batch:
        at = self._send_at()
        if at is None or at > self._timer.now():
            return ()
        return self._batcher.take(self._batcher.limit)

    async def _send(self, batch: Batch) -> None:
        began = self._timer.now()
        call = call_provider(
            self._provider,
            [job.text for job in batch],
            timeout_s=self._settings.call_timeout_s + self._provider.limits.longest_wait_s,
            timer=self._timer,
            telemetry=self._telemetry,
        )
        watching = asyncio.create_task(self._diagnosis.watch_slow_call(), name="slow call")
        try:
            reply = await self._in_flight.wait(batch, call)
        finally:
            watching.cancel()
        if reply is None:
            self._batcher.put_first((batch,))
        elif isinstance(reply, Failure):
            await self._failed(batch, reply)
        else:
            await self._embedded(batch, reply)
        if erased := self._in_flight.end():
            self.drop(erased)
        if self._share < 1:
            now = self._timer.now()
            # If the machine slept meanwhile, that time was not work.
            self._rests_until = now + min(rest_ms(now - began, self._share), LONGEST_NAP_MS)

    async def _embedded(self, batch: Batch, vectors: Vectors) -> None:
        self._diagnosis.embedded()
        self._batcher.grow()
        stored = await self._table.complete(batch, vectors)
        self._embedded_jobs += stored
        self._stale_jobs += len(batch) - stored
        if stored < len(batch):
            # A replaced text may have a successor that was not announced.
            self._buffer.has_backlog = True
        self._end(batch, Outcome.DONE)

    async def _failed(self, batch: Batch, failure: Failure) -> None:
        verdict = await self._diagnosis.judge(batch, failure)
        if not failure.is_ours or verdict.fault is not None:
            log.warning(
                "batch_failed", disposition=failure.disposition, reason=failure.reason, jobs=len(batch)
            )
        if (verdict.fault is not None or failure.disposition is Disposition.RETRY) and not failure.is_ours:
            self._batcher.shrink(len(batch))
        self._batcher.put_first(verdict.parts)
        for postponed in verdict.postpone:
            until = postponed.not_before
            await self._table.postpone(postponed.jobs, not_before=until, error=failure.reason)
            self._buffer.expect(until)
            self._buffer.release(postponed.jobs)
        for job in verdict.bury:
            await self._bury(job, failure.reason)

    async def _bury(self, job: Job, reason: str) -> None:
        await self._table.bury(job, reason)
        self._buried_jobs += 1
        log.warning("job_buried", job=job.id, entry=job.entry, reason=reason)
        self._end((job,), Outcome.BURIED)

    def _end(self, jobs: Batch, outcome: Outcome) -> None:
        self._diagnosis.forget(job.id for job in jobs)
        self._buffer.release(jobs)
        self._outcomes.record((job.id for job in jobs), outcome)


def rest_ms(worked_ms: int, share: float) -> int:
    """Return how long to rest after this much work, so that work takes at most `share` of the time."""
    return round(worked_ms * (1 - share) / share)
