"""Repair the database: remove orphaned rows, and rebuild vector tables.

Each function is one step inside the caller's transaction; none removes anything of a live entry.
"""

from __future__ import annotations

import asyncio
from typing import Final

from agentctx.storage.records import Entry, Job
from agentctx.storage.versions import rechunked
from agentctx_postgresql import locks
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import chunks
from agentctx_postgresql.entries.chunks import Reservation
from agentctx_postgresql.upkeep.proofs import LIVE

_JOBS: Final = f"""DELETE FROM jobs WHERE NOT {LIVE.format(chunk="jobs.chunk")}
    OR space NOT IN (SELECT id FROM spaces WHERE enabled) RETURNING 1"""  # noqa: S608 - constants
_VECTORS: Final = "DELETE FROM vec_{space:d} v WHERE NOT {live} RETURNING 1"
DELETE_STRAY_WORDS: Final = """DELETE FROM chunk_words w
    WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE id = w.chunk) RETURNING 1"""
_DEAD_WORDS: Final = f"DELETE FROM chunk_words w WHERE NOT {LIVE.format(chunk='w.chunk')}"  # noqa: S608 - constants
_CHUNKS: Final = f"DELETE FROM chunks WHERE NOT {LIVE.format(chunk='chunks.id')} RETURNING 1"  # noqa: S608 - constants


async def remove_orphans(conn: Connection) -> int:
    """Remove jobs, vectors, words and chunks whose live owner is gone; return how many."""
    await locks.lock_spaces(conn)
    live = LIVE.format(chunk="v.chunk")
    vectors = [_VECTORS.format(space=space, live=live) for space in await chunks.prepared(conn)]
    removed = [len(await conn.fetch(sql)) for sql in (_JOBS, *vectors, DELETE_STRAY_WORDS)]
    await conn.execute(_DEAD_WORDS)
    return sum(removed) + len(await conn.fetch(_CHUNKS))


async def rechunk(
    conn: Connection, seq: int, entry: Entry, *, now: int, reservation: Reservation | None
) -> tuple[Job, ...]:
    """Create the chunks of a live version that has none, with words and, given a `reservation`, jobs."""
    labels, header = await conn.fetchrow("SELECT labels, header FROM entries WHERE seq = $1", seq)
    draft = rechunked(entry, labels=labels, header=header)
    new = await asyncio.to_thread(chunks.build, entry.id, draft, now=now, reservation=reservation)
    return await chunks.insert(conn, seq, new)
