"""The outbox: jobs that owe vectors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from agentctx.embedding_providers.base import Vectors
from agentctx.storage.records import BuriedRow, Job, Owed, QueueDepth
from agentctx.storage.sqlite import jobs
from agentctx.storage.sqlite.connections import SqliteConnections


class SqliteJobs(SqliteConnections):
    """See the protocol for each method."""

    async def claim(
        self,
        limit: int,
        *,
        now: int,
        lease_until: int,
        exclude: Collection[int] = (),
        space: int | None = None,
    ) -> list[Job]:
        return await self._writer.run(
            partial(
                jobs.claim, limit=limit, now=now, lease_until=lease_until, exclude=tuple(exclude), space=space
            )
        )

    async def release_leases(self, space: int | None = None) -> None:
        await self._writer.run(partial(jobs.release_leases, space=space))

    async def complete(self, done: Sequence[Job], vectors: Vectors) -> int:
        return await self._writer.run(partial(jobs.complete, jobs=done, vectors=vectors))

    async def postpone(self, failed: Sequence[Job], *, not_before: int, error: str) -> None:
        await self._writer.run(partial(jobs.postpone, jobs=failed, not_before=not_before, error=error))

    async def bury(self, job: Job, reason: str) -> None:
        await self._writer.run(partial(jobs.bury, job=job, reason=reason))

    async def retry_buried(self) -> int:
        return await self._writer.run(jobs.retry_buried)

    async def next_due(self, now: int, space: int | None = None) -> int | None:
        return await self._readers.run(partial(jobs.next_due, now=now, space=space))

    async def depth(self) -> QueueDepth:
        return await self._readers.run(jobs.depth)

    async def buried(self, limit: int = 100) -> list[BuriedRow]:
        return await self._readers.run(partial(jobs.buried, limit=limit))

    async def owed(self, space_id: int) -> int:
        return await self._readers.run(partial(jobs.owed, space_id=space_id))

    async def owed_in_all(self, space_id: int) -> Owed:
        return await self._readers.run(partial(jobs.owed_in_all, space_id=space_id))
