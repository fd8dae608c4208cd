"""Split a live entry's content into chunks again, inside the caller's transaction."""

from __future__ import annotations

import asyncio

from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.postgresql.entries import chunks
from agentctx.storage.postgresql.entries.chunks import Reservation
from agentctx.storage.records import Entry, Job
from agentctx.storage.versions import rechunked


async def rechunk(
    conn: Connection, seq: int, entry: Entry, *, now: int, reservation: Reservation | None
) -> tuple[Job, ...]:
    """Create the chunks of a live version that has none, with words and, given a `reservation`, jobs."""
    labels, header = await conn.fetchrow("SELECT labels, header FROM entries WHERE seq = $1", seq)
    draft = rechunked(entry, labels=labels, header=header)
    new = await asyncio.to_thread(chunks.build, entry.id, draft, now=now, reservation=reservation)
    return await chunks.insert(conn, seq, new)
