"""`SlotStorage` without slots, as autovacuum packs the tables; a step maintains indexes instead."""

from __future__ import annotations

from typing import Final

from agentctx.storage.postgresql.connections import PostgresqlPart
from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.postgresql.entries import chunks
from agentctx.storage.postgresql.upkeep import leases, tidying
from agentctx.storage.postgresql.vectors import nearest_index
from agentctx.storage.proofs import SlotCount

TASK: Final = "indexes"
LEASE_MS: Final = 3_600_000
"""Long, because building an index of a million vectors takes minutes."""


class PostgresqlSlots(PostgresqlPart):
    """`SlotStorage` on a PostgreSQL server."""

    async def count(self) -> SlotCount:
        """Return a count of no slots: PostgreSQL has none."""
        return SlotCount()

    async def step(self) -> bool:
        """Build one missing or due index, on one of the daemons; return False if there is none.

        Namespaces with many vectors get an index each (`nearest_index`); word indexes are rebuilt once they
        have kept deleted words for a day.

        Raises:
            StorageFailed.
        """
        if not await leases.take(self.db, TASK, LEASE_MS):
            return False
        try:
            return await self.db.prepare(_has_index)
        finally:
            await leases.release(self.db, TASK)

    async def pack(self) -> int:
        """Return 0: there is nothing to pack."""
        return 0


async def _has_index(conn: Connection) -> bool:
    for space in await chunks.prepared(conn):
        if await nearest_index.build_next(conn, space):
            return True
    return await tidying.reindex_if_due(conn)
