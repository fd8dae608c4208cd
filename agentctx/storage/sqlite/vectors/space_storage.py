"""Spaces: opening, preparing, activating, comparing and retiring them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentctx.storage.records import Space
from agentctx.storage.sqlite.connections import SqlitePart, reads, removes, writes
from agentctx.storage.sqlite.queue import jobs
from agentctx.storage.sqlite.vectors import spaces


class SqliteSpaces(SqlitePart):
    """`SpaceStorage` on the SQLite file."""

    all = reads(spaces.all_spaces)
    pending = reads(jobs.pending)
    total_pending = reads(jobs.total_pending)
    prepare = writes(spaces.prepare)
    record_comparison = writes(spaces.record_comparison)
    disable_all = writes(spaces.disable_all)
    retire_former = removes(spaces.retire_former)

    async def open(self, fingerprint: Mapping[str, str | int]) -> Space:
        return (await self.open_all([fingerprint]))[0]

    async def open_all(self, fingerprints: Sequence[Mapping[str, str | int]]) -> list[Space]:
        return await self.db.write(spaces.open_spaces, fingerprints=fingerprints, now=self.db.clock())

    async def renew(self, space_id: int) -> Space:
        return await self.db.write(spaces.renew, space_id=space_id, now=self.db.clock())

    async def activate(self, space_id: int, *, max_pending: int | None = None) -> Space:
        return await self.db.remove(
            spaces.activate, space_id=space_id, now=self.db.clock(), max_pending=max_pending
        )

    async def approve(self, space_id: int) -> None:
        await self.db.write(spaces.approve, space_id=space_id, now=self.db.clock())

    async def backfill(self, space_id: int, *, limit: int = 1_000) -> int:
        return await self.db.write(spaces.backfill, space_id=space_id, now=self.db.clock(), limit=limit)
