"""What one user has in the database."""

from __future__ import annotations

from typing import Final

from agentctx.access.quotas import Usage
from agentctx.storage.postgresql.connections import PostgresqlPart, reads
from agentctx.storage.postgresql.driver import Connection

LOOK_TIMEOUT_S: Final = 20.0


async def usage_of(conn: Connection, principal: int) -> Usage:
    """Of an index that has the sizes. Cues count as content does."""
    stored = await conn.fetchval(
        "SELECT coalesce(sum(size), 0)::bigint FROM entries WHERE principal = $1", principal
    )
    waiting = await conn.fetchval(
        """SELECT count(*) FROM jobs JOIN chunks ON chunks.id = jobs.chunk
           JOIN entries ON entries.seq = chunks.entry
           WHERE jobs.state = 'pending' AND entries.principal = $1""",
        principal,
    )
    return Usage(stored, waiting)


class PostgresqlUsage(PostgresqlPart):
    """`UsageStorage` on a PostgreSQL server."""

    of = reads(usage_of, timeout_s=LOOK_TIMEOUT_S)
