"""Entries erased by this daemon or another: every daemon drops its copies of them from memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.storage.steps import ErasureListener
from agentctx_postgresql.clock import NOW_MS
from agentctx_postgresql.driver import SERVER_EPOCH, Connection

if TYPE_CHECKING:
    from agentctx_postgresql.connections import PostgresqlConnections

POLL_S: Final = 1.0
RETENTION_MS: Final = 86_400_000
"""How long a daemon may be disconnected and still learn of all erasures."""

# Erasures since the oldest running transaction may be seen twice, but none is missed.
_SINCE: Final = "SELECT DISTINCT entry FROM erasures WHERE x >= $1::text::xid8"
_MARK: Final = f"SELECT pg_snapshot_xmin(pg_current_snapshot())::text, {SERVER_EPOCH}"
_ALL: Final = "0"


async def record_erasure(conn: Connection, entry_ids: Sequence[str]) -> None:
    """Notify the other daemons, on commit, that these entries are gone or must not be in answers."""
    await conn.execute(
        f"INSERT INTO erasures (entry, at) SELECT unnest($1::text[]), {NOW_MS}",
        list(entry_ids),
    )


async def discard_old(conn: Connection) -> None:
    """Remove records that all daemons have long seen."""
    await conn.execute(
        f"DELETE FROM erasures WHERE at < {NOW_MS} - $1",  # noqa: S608 - constant
        RETENTION_MS,
    )


class Erasures:
    """Notifies listeners of erasures, and tracks whether deleted rows are still in the tables."""

    def __init__(self) -> None:
        self.listeners: list[ErasureListener] = []
        self.is_due = asyncio.Event()
        """Set while deleted rows are still in the tables."""
        self.is_due.set()  # a killed daemon may have left some
        self._mark, self._epoch = _ALL, ""
        self._task: asyncio.Task[None] | None = None

    async def start(self, connections: PostgresqlConnections) -> None:
        """Start to watch for erasures by other daemons."""
        self._mark, self._epoch = await connections.read(lambda conn: conn.fetchrow(_MARK))
        self._task = asyncio.create_task(self._follow(connections), name="erasures of other daemons")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def note_deletion(self, entry_ids: Sequence[str] = ()) -> None:
        """Note that these entries were deleted, but are still in the files."""
        self.is_due.set()
        self.note_quarantined(entry_ids)

    def note_quarantined(self, entry_ids: Sequence[str]) -> None:
        """Note that these entries must no longer be in answers, although nothing was deleted."""
        if entry_ids:
            for listener in self.listeners:
                listener(entry_ids)

    async def poll(self, connections: PostgresqlConnections) -> None:
        """Notify the listeners of erasures since the last call; after a crash or failover, of all."""
        found, self._mark, self._epoch = await connections.read(self._since)
        self.note_quarantined(found)

    async def _since(self, conn: Connection) -> tuple[list[str], str, str]:
        mark, epoch = await conn.fetchrow(_MARK)
        rows = await conn.fetch(_SINCE, self._mark if epoch == self._epoch else _ALL)
        return [row[0] for row in rows], mark, epoch

    async def _follow(self, connections: PostgresqlConnections) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            with suppress(DeadlineExceeded, StorageFailed):  # the connections have logged it
                await connections.query(connections.compared_clock.compare)
                await self.poll(connections)
