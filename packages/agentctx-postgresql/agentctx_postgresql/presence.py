"""Tracks the daemons that have the database open, as only a sole daemon may change what all of them share."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from agentctx.errors import ConfigInvalid, StorageFailed
from agentctx_postgresql.clock import NOW_MS
from agentctx_postgresql.connections import PostgresqlConnections
from agentctx_postgresql.driver import Connection

HEARTBEAT_S: Final = 20.0
GONE_MS: Final = 70_000
"""A daemon that has sent no heartbeat for this long counts as gone."""
_HEARTBEAT: Final = f"""INSERT INTO daemons (daemon, seen) VALUES ($1, {NOW_MS})
    ON CONFLICT (daemon) DO UPDATE SET seen = excluded.seen"""  # noqa: S608 - constant
_LEAVE: Final = "DELETE FROM daemons WHERE daemon = $1"


async def other_daemon(conn: Connection, daemon: str) -> str | None:
    """Return another daemon that is present, or None."""
    other: str | None = await conn.fetchval(
        f"SELECT daemon FROM daemons WHERE daemon <> $1 AND seen > {NOW_MS} - $2 LIMIT 1",  # noqa: S608 - constant
        daemon,
        GONE_MS,
    )
    return other


async def require_alone(conn: Connection, daemon: str) -> None:
    """Raise ConfigInvalid if another daemon is present, because it embeds with another model."""
    other = await other_daemon(conn, daemon)
    if other is not None:
        raise ConfigInvalid(
            f"The daemon {other} shares this database and embeds with another model.",
            hint="Give all daemons of a database the same [embedding], or stop the others and wait a minute.",
        )


class Presence:
    """Records this daemon's presence periodically while it has the database open."""

    def __init__(self, connections: PostgresqlConnections) -> None:
        self._db = connections
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start recording. Raises like a write."""
        await self._record()
        self._task = asyncio.create_task(self._beat(), name="presence of this daemon")

    async def close(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None
        with suppress(StorageFailed):  # the record times out instead
            await self._db.write(lambda conn: conn.execute(_LEAVE, self._db.daemon))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            with suppress(StorageFailed):  # logged by the connections
                await self._record()

    async def _record(self) -> None:
        await self._db.write(lambda conn: conn.execute(_HEARTBEAT, self._db.daemon))
