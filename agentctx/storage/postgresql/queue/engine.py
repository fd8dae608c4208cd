"""The outbox of embedding jobs, leased to daemons by the server's clock."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from agentctx.embedding_providers.base import Vectors
from agentctx.storage.postgresql import locks
from agentctx.storage.postgresql.connections import PostgresqlPart, queries, writes
from agentctx.storage.postgresql.entries.chunks import Reservation
from agentctx.storage.postgresql.queue import jobs
from agentctx.storage.records import Job


class PostgresqlJobs(PostgresqlPart):
    """`OutboxStorage` on a PostgreSQL server."""

    bury = writes(jobs.bury)
    retry_buried = writes(jobs.retry_buried)
    depth = queries(jobs.depth)
    buried = queries(jobs.buried)

    async def claim(
        self,
        limit: int,
        *,
        now: int,
        lease_until: int,
        exclude: Collection[int] = (),
        space: int | None = None,
    ) -> list[Job]:
        server_now = self.db.server_ms(now)
        lease = Reservation(self.db.daemon, server_now + lease_until - now)
        return await self.db.write(
            partial(jobs.claim, limit=limit, now=server_now, lease=lease, exclude=exclude, space=space)
        )

    async def complete(self, done: Sequence[Job], vectors: Vectors) -> int:
        store = partial(jobs.complete, jobs=done, vectors=vectors)
        return await self.db.write(store, begin=locks.BEGIN_SHARING_SPACES)

    async def release_leases(self, space: int | None = None) -> None:
        """Release this daemon's leases, but not those of other daemons."""
        await self.db.write(partial(jobs.release_leases, daemon=self.db.daemon, space=space))

    async def postpone(self, postponed: Sequence[Job], *, not_before: int, error: str) -> None:
        server_time = self.db.server_ms(not_before)
        await self.db.write(partial(jobs.postpone, jobs=postponed, not_before=server_time, error=error))

    async def next_due(self, now: int, space: int | None = None) -> int | None:
        server_now = self.db.server_ms(now)
        found = await self.db.query(
            partial(jobs.next_due, daemon=self.db.daemon, now=server_now, space=space)
        )
        return None if found is None else found - server_now + now
