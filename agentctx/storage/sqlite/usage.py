"""What one user has in the database."""

from __future__ import annotations

from functools import partial
from typing import Final

from agentctx.access.quotas import Usage
from agentctx.sqlite.driver import Connection
from agentctx.sqlite.readers import Readers

LOOK_TIMEOUT_S: Final = 20.0


class SqliteUsage:
    """Looks it up; a scan of all entries, whose contents are not read."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    async def of(self, principal: int) -> Usage:
        """Of all versions that this uid saved. Raises `DeadlineExceeded`, `StorageFailed`."""
        return await self._readers.run(partial(usage_of, principal=principal), timeout_s=LOOK_TIMEOUT_S)


def usage_of(conn: Connection, *, principal: int) -> Usage:
    (stored,) = conn.execute(
        "SELECT coalesce(sum(octet_length(content)), 0) FROM entries WHERE principal = ?", (principal,)
    ).fetchone()
    (waiting,) = conn.execute(
        """SELECT COUNT(*) FROM jobs JOIN chunks ON chunks.id = jobs.chunk
           JOIN entries ON entries.seq = chunks.entry
           WHERE jobs.state = 'pending' AND entries.principal = ?""",
        (principal,),
    ).fetchone()
    return Usage(stored, waiting)
