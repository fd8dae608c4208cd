"""One model's way from owed jobs to vectors: its provider, its queue and the keeper of its space.

Each space has a lane of its own, so that a provider that is down, slow or throttled holds up no other model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding_providers.base import EmbeddingProvider, Vectors
from agentctx.embedding_providers.spending import Spending
from agentctx.embedding_queue.space_keeper import Permit, SpaceKeeper, space_fingerprint
from agentctx.embedding_queue.timing import Timer
from agentctx.embedding_queue.worker import EmbeddingQueue
from agentctx.storage.base import Storage
from agentctx.storage.jobs import OutboxStorage
from agentctx.storage.records import Job
from agentctx.telemetry.base import NO_TELEMETRY, Telemetry
from agentctx.times import Clock


class Lane:
    """`keeper.open`, then `run` until `stop`.

    Args:
        settings: of the model; `spending` is what it costs, None where nothing is asked over HTTP.
        leads: whether this is the lane that answers.
        permit: as of `SpaceKeeper`.
    """

    def __init__(
        self,
        storage: Storage,
        provider: EmbeddingProvider,
        settings: EmbeddingSettings,
        *,
        clock: Clock,
        timer: Timer,
        leads: Callable[[Lane], bool],
        permit: Permit,
        spending: Spending | None = None,
        telemetry: Telemetry = NO_TELEMETRY,
    ) -> None:
        self.provider = provider
        self.settings = settings
        self.spending = spending
        self.queue = EmbeddingQueue(
            SpaceJobs(storage.jobs, lambda: self.space),
            provider,
            settings.queue,
            clock=clock,
            timer=timer,
            telemetry=telemetry,
        )
        self.keeper = SpaceKeeper(
            storage,
            provider,
            self.queue,
            timer=timer,
            leads=lambda: leads(self),
            permit=permit,
            telemetry=telemetry,
        )

    @property
    def space(self) -> int:
        """The space that is filled. There is one as soon as the lane is open."""
        if self.keeper.space is None:
            raise RuntimeError("a lane is opened before it runs")
        return self.keeper.space

    @property
    def fingerprint(self) -> dict[str, str | int]:
        return space_fingerprint(self.provider)

    def enqueue(self, jobs: Sequence[Job]) -> None:
        """Take those of the jobs that are of this space."""
        self.queue.enqueue([job for job in jobs if job.space == self.space])

    async def run(self) -> None:
        """Fill the space until `stop`. A bug in either part is raised, and ends the other."""
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(self.keeper.run(), name="space keeper")
            await self.queue.run()
            keeping.cancel()

    async def stop(self, timeout: float | None = None) -> None:
        """As `EmbeddingQueue.stop`."""
        await self.queue.stop(timeout)


class SpaceJobs:
    """`JobStorage` of one space: a queue meets no job of another."""

    def __init__(self, jobs: OutboxStorage, space: Callable[[], int]) -> None:
        self._jobs = jobs
        self._space = space

    async def claim(
        self, limit: int, *, now: int, lease_until: int, exclude: Collection[int] = ()
    ) -> list[Job]:
        return await self._jobs.claim(
            limit, now=now, lease_until=lease_until, exclude=exclude, space=self._space()
        )

    async def release_leases(self) -> None:
        await self._jobs.release_leases(self._space())

    async def complete(self, jobs: Sequence[Job], vectors: Vectors) -> int:
        return await self._jobs.complete(jobs, vectors)

    async def postpone(self, jobs: Sequence[Job], *, not_before: int, error: str) -> None:
        await self._jobs.postpone(jobs, not_before=not_before, error=error)

    async def bury(self, job: Job, reason: str) -> None:
        await self._jobs.bury(job, reason)

    async def next_due(self, now: int) -> int | None:
        return await self._jobs.next_due(now, self._space())
