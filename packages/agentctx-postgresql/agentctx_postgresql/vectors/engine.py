"""Spaces: opening, preparing, activating, comparing and retiring them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from agentctx.storage.records import Space
from agentctx_postgresql.connections import PostgresqlPart, queries, writes
from agentctx_postgresql.queue import jobs
from agentctx_postgresql.upkeep import leases
from agentctx_postgresql.vectors import spaces

BACKFILL_LEASE_MS: Final = 60_000
"""Renewed at each step. Two daemons at once would only do the same work twice."""


class PostgresqlSpaces(PostgresqlPart):
    """`SpaceStorage` on a PostgreSQL server."""

    all = queries(spaces.all_spaces)
    pending = queries(jobs.pending)
    total_pending = queries(jobs.total_pending)
    prepare = writes(spaces.prepare)
    activate = writes(spaces.activate)
    record_comparison = writes(spaces.record_comparison)
    retire_former = writes(spaces.retire_former)

    async def open(self, fingerprint: Mapping[str, str | int]) -> Space:
        return (await self.open_all([fingerprint]))[0]

    async def open_all(self, fingerprints: Sequence[Mapping[str, str | int]]) -> list[Space]:
        now = self.db.clock()
        opened, enabled = await self.db.write(
            partial(spaces.open_spaces, fingerprints=fingerprints, daemon=self.db.daemon, now=now)
        )
        for space_id in enabled:
            await self._create_all_jobs(space_id)
        return opened

    async def disable_all(self) -> None:
        await self.db.write(partial(spaces.disable_all, daemon=self.db.daemon))

    async def renew(self, space_id: int) -> Space:
        renewed = await self.db.write(partial(spaces.renew, space_id=space_id, now=self.db.clock()))
        await self._create_all_jobs(renewed.id)
        return renewed

    async def _create_all_jobs(self, space_id: int) -> None:
        """Create missing jobs in steps, so that others can save in between, unless another daemon does."""
        after: int | None = 0
        while after is not None:
            if not await leases.take(self.db, _backfill_task(space_id), BACKFILL_LEASE_MS):
                return
            step = partial(spaces.create_missing_jobs, space_id=space_id, after=after, now=self.db.clock())
            _, after = await self.db.write(partial(step, limit=spaces.JOBS_PER_STEP))
        await leases.release(self.db, _backfill_task(space_id))

    async def approve(self, space_id: int) -> None:
        await self.db.write(partial(spaces.approve, space_id=space_id, now=self.db.clock()))

    async def backfill(self, space_id: int, *, limit: int = 1_000) -> int | None:
        if not await leases.take(self.db, _backfill_task(space_id), BACKFILL_LEASE_MS):
            return None
        now = self.db.clock()
        step = partial(spaces.create_missing_jobs, space_id=space_id, now=now, limit=limit)
        made, _ = await self.db.write(step)
        if not made:
            await leases.release(self.db, _backfill_task(space_id))
        return made


def _backfill_task(space_id: int) -> str:
    return f"backfill {space_id}"
