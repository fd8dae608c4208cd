"""Leases for background work that one daemon does for all; another takes over once it is not renewed.

A lease is a row, so that it works through poolers, where several daemons would share a session's locks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentctx_postgresql.clock import NOW_MS

if TYPE_CHECKING:
    from agentctx_postgresql.connections import PostgresqlConnections

LEASE_MS: Final = 180_000
"""Duration by the server's clock, longer than the pause between two rounds of any background work."""

_TAKE: Final = f"""INSERT INTO upkeep_leases AS lease (task, daemon, until) VALUES ($1, $2, {NOW_MS} + $3)
    ON CONFLICT (task) DO UPDATE SET daemon = excluded.daemon, until = excluded.until
      WHERE lease.daemon = excluded.daemon OR lease.until <= {NOW_MS}
    RETURNING TRUE"""  # noqa: S608 - constants


async def take(db: PostgresqlConnections, task: str, lease_ms: int = LEASE_MS) -> bool:
    """Take or renew the lease of a task; False while another daemon holds it. Raises like a write."""
    return bool(await db.write(lambda conn: conn.fetchval(_TAKE, task, db.daemon, lease_ms)))


async def release(db: PostgresqlConnections, task: str) -> None:
    """Release the lease, so that another daemon can take it at once."""
    await db.write(
        lambda conn: conn.execute(
            "DELETE FROM upkeep_leases WHERE task = $1 AND daemon = $2", task, db.daemon
        )
    )
