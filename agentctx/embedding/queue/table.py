"""The job table as the worker uses it, retrying while the storage fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

import structlog

from agentctx.config.embedding import QueueSettings
from agentctx.embedding.queue.retry import LONGEST_PAUSE_S, Backoff
from agentctx.embedding.queue.timing import Timer, sleep
from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.storage.jobs import OutboxStorage
from agentctx.storage.records import Job
from agentctx.storage.vectors import Vectors

T = TypeVar("T")

log = structlog.get_logger("agentctx.embedding_queue")

_BACKOFF = Backoff(base_s=0.2, max_s=3.0)
_END_OF_TIME = 2**62


class StorageAbandoned(Exception):
    """The storage failed during a stop. No data is lost: pending jobs are in the table."""


class JobTable:
    """The jobs of one space. Operations are retried while the storage fails or is slow, until `give_up`.

    After `give_up` was called, every method raises `StorageAbandoned` if the storage fails.
    """

    def __init__(
        self,
        storage: OutboxStorage,
        settings: QueueSettings,
        *,
        space: Callable[[], int | None],
        timer: Timer,
        rng: random.Random,
    ) -> None:
        self._storage = storage
        self._space = space
        self._timer = timer
        self._rng = rng
        self._lease_ms = round(settings.lease_s * 1000)
        longest_s = LONGEST_PAUSE_S + settings.backoff_max_s + settings.lease_s
        self._longest_ms = round(longest_s * 1000)
        self._claimed_at = 0
        self._claim_as_of = 0
        self._has_leapt = False
        self._giving_up = asyncio.Event()
        self.reason: str | None = None
        """Why the storage currently fails."""

    def give_up(self) -> None:
        """Make any further failure final."""
        self._giving_up.set()

    async def release_leases(self) -> None:
        await self._retry_until_stopped(lambda: self._storage.release_leases(self._space()))

    async def claim(self, limit: int, exclude: Collection[int]) -> list[Job]:
        """Lease up to `limit` jobs that are due."""

        async def claim() -> list[Job]:
            self._claimed_at = now = self._timer.now()
            return await self._storage.claim(
                # Copied, because the worker changes its own while another thread reads this one.
                limit,
                now=max(now, self._claim_as_of),
                lease_until=now + self._lease_ms,
                exclude=tuple(exclude),
                space=self._space(),
            )

        jobs = await self._retry_until_stopped(claim)
        if self._claim_as_of and len(jobs) < limit:
            self._claim_as_of, self._has_leapt = 0, True
        return jobs

    async def next_due(self) -> int | None:
        """Return when to claim again, in milliseconds; includes jobs that became due since the last claim.

        No job is postponed for more than about a day. One that seems to be was written while the clock was
        ahead: it is due, once. From then on it is in memory; this process writes no such times.
        """
        due = await self._retry_until_stopped(lambda: self._storage.next_due(self._claimed_at, self._space()))
        now = self._timer.now()
        if due is None or due - now <= self._longest_ms:
            return due
        if self._has_leapt:
            return None
        self._claim_as_of = _END_OF_TIME
        return now

    async def complete(self, jobs: Sequence[Job], vectors: Vectors) -> int:
        return await self._retry_until_stopped(lambda: self._storage.complete(jobs, vectors))

    async def postpone(self, jobs: Sequence[Job], *, not_before: int, error: str) -> None:
        await self._retry_until_stopped(
            lambda: self._storage.postpone(jobs, not_before=not_before, error=error)
        )

    async def bury(self, job: Job, reason: str) -> None:
        await self._retry_until_stopped(lambda: self._storage.bury(job, reason))

    async def _retry_until_stopped(self, operation: Callable[[], Awaitable[T]]) -> T:
        attempts = 0
        while True:
            try:
                result = await operation()
            except (DeadlineExceeded, StorageFailed) as error:
                self.reason = error.message
                log.warning("queue_storage_failed", error=error.code, reason=error.message, attempts=attempts)
                if self._giving_up.is_set():
                    raise StorageAbandoned from error
            else:
                self.reason = None
                return result
            await sleep(self._timer, _BACKOFF.delay_ms(attempts, self._rng), until=self._giving_up)
            attempts += 1
