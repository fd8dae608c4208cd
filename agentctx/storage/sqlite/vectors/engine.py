"""Spaces: opening, preparing, activating, comparing and retiring them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

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
        now = self.db.clock()
        return await self.db.writer.run(partial(spaces.open_spaces, fingerprints=fingerprints, now=now))

    async def renew(self, space_id: int) -> Space:
        now = self.db.clock()
        return await self.db.writer.run(partial(spaces.renew, space_id=space_id, now=now))

    async def activate(self, space_id: int, *, max_pending: int | None = None) -> Space:
        now = self.db.clock()
        return await self.db.remove(
            partial(spaces.activate, space_id=space_id, now=now, max_pending=max_pending)
        )

    async def approve(self, space_id: int) -> None:
        now = self.db.clock()
        await self.db.writer.run(partial(spaces.approve, space_id=space_id, now=now))

    async def backfill(self, space_id: int, *, limit: int = 1_000) -> int:
        now = self.db.clock()
        return await self.db.writer.run(partial(spaces.backfill, space_id=space_id, now=now, limit=limit))
