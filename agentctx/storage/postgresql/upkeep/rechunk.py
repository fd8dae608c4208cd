"""Split a live entry's content into chunks again, inside the caller's transaction."""

from __future__ import annotations

import asyncio

from agentctx.chunking.entry import CHUNKING_VERSION, chunk_entry
from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.postgresql.entries import chunks
from agentctx.storage.postgresql.entries.chunks import Reservation
from agentctx.storage.records import Draft, Entry, Job


async def rechunk(
    conn: Connection, seq: int, entry: Entry, *, now: int, reservation: Reservation | None
) -> tuple[Job, ...]:
    """Create the chunks of a live version that has none, with words and, given a `reservation`, jobs."""
    labels, header = await conn.fetchrow("SELECT labels, header FROM entries WHERE seq = $1", seq)
    draft = Draft(
        namespace=entry.namespace,
        collection=entry.collection,
        content=entry.content,
        spans=tuple(chunk_entry(entry.content, source=entry.attributes.get("source"))),
        chunking=CHUNKING_VERSION,
        attributes=entry.attributes,
        labels=labels,
        header=header,
        origin=entry.origin,
        trust=entry.trust,
        principal=entry.principal,
    )
    new = await asyncio.to_thread(chunks.build, entry.id, draft, now=now, reservation=reservation)
    return await chunks.insert(conn, seq, new)
