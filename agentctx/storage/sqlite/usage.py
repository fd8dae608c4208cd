"""What one user has in the database."""

from __future__ import annotations

from typing import Final

from agentctx.access.quotas import Usage
from agentctx.sqlite.driver import Connection
from agentctx.storage.sqlite.connections import SqlitePart, reads
from agentctx.storage.sqlite.entries.chunk_texts import CUE_BYTES

LOOK_TIMEOUT_S: Final = 20.0


def usage_of(conn: Connection, principal: int) -> Usage:
    """A scan of all entries, whose contents are not read. Cues count as content does."""
    (stored,) = conn.execute(
        f"""SELECT coalesce(sum(octet_length(content) + {CUE_BYTES}), 0) FROM entries
            WHERE principal = ?""",  # noqa: S608 - constant
        (principal,),
    ).fetchone()
    (waiting,) = conn.execute(
        """SELECT COUNT(*) FROM jobs JOIN chunks ON chunks.id = jobs.chunk
           JOIN entries ON entries.seq = chunks.entry
           WHERE jobs.state = 'pending' AND entries.principal = ?""",
        (principal,),
    ).fetchone()
    return Usage(stored, waiting)


class SqliteUsage(SqlitePart):
    """`UsageStorage` on the SQLite file."""

    of = reads(usage_of, timeout_s=LOOK_TIMEOUT_S)
