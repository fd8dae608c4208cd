"""Spaces: opened, prepared, activated, compared and retired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from agentctx.storage.postgresql.connections import PostgresqlPart, reads, writes
from agentctx.storage.postgresql.queue import jobs
from agentctx.storage.postgresql.vectors import spaces
from agentctx.storage.records import Space


class PostgresqlSpaces(PostgresqlPart):
    """`SpaceStorage` on a PostgreSQL server."""

    all = reads(spaces.all_spaces)
    owed = reads(jobs.owed)
    owed_in_all = reads(jobs.owed_in_all)
    prepare = writes(spaces.prepare)
    activate = writes(spaces.activate)
    record_comparison = writes(spaces.record_comparison)
    retire_former = writes(spaces.retire_former)

    async def open(self, fingerprint: Mapping[str, str | int]) -> Space:
        return (await self.open_all([fingerprint]))[0]

    async def open_all(self, fingerprints: Sequence[Mapping[str, str | int]]) -> list[Space]:
        now = self.db.clock()
        return await self.db.write(
            partial(spaces.open_spaces, fingerprints=fingerprints, daemon=self.db.daemon, now=now)
        )

    async def disable_all(self) -> None:
        await self.db.write(partial(spaces.disable_all, daemon=self.db.daemon))

    async def renew(self, space_id: int) -> Space:
        return await self.db.write(partial(spaces.renew, space_id=space_id, now=self.db.clock()))

    async def approve(self, space_id: int) -> None:
        await self.db.write(partial(spaces.approve, space_id=space_id, now=self.db.clock()))

    async def backfill(self, space_id: int, *, limit: int = 1_000) -> int:
        now = self.db.clock()
        return await self.db.write(partial(spaces.backfill, space_id=space_id, now=now, limit=limit))
