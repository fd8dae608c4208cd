"""The outbox of embeddings: pending → done (row deleted), or pending ⇄ buried. Times are the server's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from agentctx.storage.chunk_texts import ChunkTexts, Piece, stored_cues, text_hash
from agentctx.storage.records import BuriedRow, Job, QueueDepth
from agentctx.storage.vectors import Vectors
from agentctx_postgresql import locks, pgvector
from agentctx_postgresql.connections import PostgresqlPart, queries, writes
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries.chunks import Reservation

_DAMAGED: Final = "the text is damaged on the disk; `agentctx doctor` names the entry"
# Jobs reserved by a daemon's own save may be claimed only by that daemon, but at any time.
_CLAIM: Final = """
WITH due AS (
  SELECT id FROM jobs
  WHERE state = 'pending' AND not_before <= $1 AND (leased_until <= $1 OR reserved AND daemon = $2)
    AND id <> ALL ($3::bigint[]) AND ($4::int IS NULL OR space = $4)
  ORDER BY id LIMIT $5 FOR UPDATE SKIP LOCKED)
UPDATE jobs SET leased_until = $6, daemon = $2, reserved = false FROM due WHERE jobs.id = due.id
RETURNING jobs.id, jobs.chunk, jobs.space, jobs.hash, jobs.attempts"""
_PIECES: Final = """
SELECT c.id, c.entry, c.cue, c.start_at, c.end_at FROM chunks c WHERE c.id = ANY ($1::bigint[])"""
_TEXTS: Final = """
SELECT seq, id, collection, content, attributes, labels, header FROM entries WHERE seq = ANY ($1::bigint[])"""
_COMPLETE: Final = """
WITH given AS (SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::halfvec[]) AS g (id, hash, vector)),
gone AS (
  DELETE FROM jobs USING given WHERE jobs.id = given.id AND jobs.hash = given.hash AND jobs.space = {space:d}
  RETURNING jobs.chunk, given.vector)
INSERT INTO vec_{space:d} (chunk, namespace, embedding)
SELECT gone.chunk, e.namespace, gone.vector
FROM gone JOIN chunks c ON c.id = gone.chunk JOIN entries e ON e.seq = c.entry
RETURNING 1"""
_GIVEN: Final = "unnest($1::bigint[], $2::bytea[], $3::int[]) AS g (id, hash, space)"
_IS_GIVEN: Final = "jobs.id = g.id AND jobs.hash = g.hash AND jobs.space = g.space"
_DUE_AT: Final = "greatest(not_before, CASE WHEN reserved AND daemon = $2 THEN 0 ELSE leased_until END)"


async def claim(
    conn: Connection,
    limit: int,
    *,
    now: int,
    lease: Reservation,
    exclude: Collection[int] = (),
    space: int | None = None,
) -> list[Job]:
    """Lease due jobs, oldest first, of one space or of all.

    A job whose text does not match its hash is buried, so that damaged text is never embedded.
    """
    jobs: list[Job] = []
    while wanted := limit - len(jobs):
        known = [*exclude, *(job.id for job in jobs)]
        rows = await conn.fetch(_CLAIM, now, lease.daemon, known, space, wanted, lease.until)
        jobs += await _undamaged(conn, sorted(rows))
        if len(rows) < wanted:
            break
    return jobs


async def _undamaged(conn: Connection, rows: Sequence[Any]) -> list[Job]:
    pieces = {row[0]: row for row in await conn.fetch(_PIECES, [row["chunk"] for row in rows])}
    found = await conn.fetch(_TEXTS, list({row["entry"] for row in pieces.values()}))
    texts = {row["seq"]: row for row in found}
    sound = []
    for row in rows:
        job = _job(row, pieces[row["chunk"]], texts)
        if text_hash(job.text) == job.hash:
            sound.append(job)
        else:
            await bury(conn, job, _DAMAGED)
    return sound


def _job(row: Any, piece: Any, texts: Mapping[int, Any]) -> Job:
    entry = texts[piece["entry"]]
    cues = stored_cues(entry["attributes"])
    text = ChunkTexts(entry["content"], cues, entry["labels"], entry["header"]).embedded(Piece(*piece[2:]))
    number, chunk, space, digest, attempts = row
    return Job(number, chunk, space, digest, text, entry["id"], entry["collection"], attempts)


async def release_leases(conn: Connection, daemon: str, space: int | None = None) -> None:
    """Release a daemon's leases in one space or in all."""
    await conn.execute(
        """UPDATE jobs SET leased_until = 0, reserved = false
           WHERE daemon = $1 AND leased_until > 0 AND ($2::int IS NULL OR space = $2)""",
        daemon,
        space,
    )


async def complete(conn: Connection, jobs: Sequence[Job], vectors: Vectors) -> int:
    """Store vectors and delete their jobs; drop vectors whose job is gone. Return how many were stored.

    Needs the shared lock on the spaces.
    """
    by_space: dict[int, list[tuple[int, bytes, bytes]]] = defaultdict(list)
    for job, vector in sorted(zip(jobs, vectors, strict=True), key=lambda each: each[0].id):
        by_space[job.space].append((job.id, job.hash, pgvector.encode_halfvec(vector)))
    stored = 0
    for space, rows in by_space.items():
        if await conn.fetchval("SELECT to_regclass($1)", f"vec_{space:d}") is not None:
            columns = [list(column) for column in zip(*rows, strict=True)]
            stored += len(await conn.fetch(_COMPLETE.format(space=space), *columns))
    return stored


async def postpone(conn: Connection, jobs: Sequence[Job], *, not_before: int, error: str) -> None:
    """Count a failed attempt and release the lease."""
    await conn.execute(
        f"""UPDATE jobs SET attempts = attempts + 1, not_before = $4, leased_until = 0, reserved = false,
              last_error = $5
            FROM {_GIVEN} WHERE {_IS_GIVEN} AND state = 'pending'""",  # noqa: S608 - constants
        *_columns(jobs),
        not_before,
        error,
    )


async def bury(conn: Connection, job: Job, reason: str) -> None:
    """Keep the job with the reason; it is not claimed again until it is retried."""
    await conn.execute(
        f"""UPDATE jobs SET state = 'buried', attempts = attempts + 1, leased_until = 0, reserved = false,
              last_error = $4
            FROM {_GIVEN} WHERE {_IS_GIVEN}""",  # noqa: S608 - constants
        *_columns([job]),
        reason,
    )


async def retry_buried(conn: Connection) -> int:
    """Make all buried jobs pending again, without failed attempts."""
    rows = await conn.fetch(
        "UPDATE jobs SET state = 'pending', attempts = 0, not_before = 0 WHERE state = 'buried' RETURNING 1"
    )
    return len(rows)


async def next_due(conn: Connection, daemon: str, now: int, space: int | None = None) -> int | None:
    """Return when the next pending job that the daemon cannot claim yet is due, in one space or in all."""
    found = await conn.fetchval(
        f"""SELECT min({_DUE_AT}) FROM jobs
            WHERE state = 'pending' AND {_DUE_AT} > $1 AND ($3::int IS NULL OR space = $3)""",  # noqa: S608 - constants
        now,
        daemon,
        space,
    )
    return None if found is None else int(found)


async def depth(conn: Connection) -> QueueDepth:
    """Count the jobs of the active space, or of all spaces if none is active."""
    row = await conn.fetchrow(
        """SELECT count(*) FILTER (WHERE state = 'pending'), count(*) FILTER (WHERE state = 'buried'),
                  min(created) FILTER (WHERE state = 'pending')
           FROM jobs WHERE space IN (SELECT id FROM awaited_spaces)"""
    )
    return QueueDepth(*row)


async def buried(conn: Connection, limit: int = 100) -> list[BuriedRow]:
    """Return the buried jobs, oldest first."""
    rows = await conn.fetch(
        """SELECT jobs.id, e.id, e.collection, jobs.attempts, jobs.last_error
           FROM jobs JOIN chunks ON chunks.id = jobs.chunk JOIN entries e ON e.seq = chunks.entry
           WHERE jobs.state = 'buried' AND jobs.space IN (SELECT id FROM awaited_spaces)
           ORDER BY jobs.id LIMIT $1""",
        limit,
    )
    return [BuriedRow(*row) for row in rows]


def _columns(jobs: Sequence[Job]) -> tuple[list[int], list[bytes], list[int]]:
    return [job.id for job in jobs], [job.hash for job in jobs], [job.space for job in jobs]


class PostgresqlJobs(PostgresqlPart):
    """`OutboxStorage` on a PostgreSQL server."""

    bury = writes(bury)
    retry_buried = writes(retry_buried)
    depth = queries(depth)
    buried = queries(buried)

    async def claim(
        self,
        limit: int,
        *,
        now: int,
        lease_until: int,
        exclude: Collection[int] = (),
        space: int | None = None,
    ) -> list[Job]:
        server_now = self.db.server_ms(now)
        lease = Reservation(self.db.daemon, server_now + lease_until - now)
        return await self.db.write(
            partial(claim, limit=limit, now=server_now, lease=lease, exclude=exclude, space=space)
        )

    async def complete(self, done: Sequence[Job], vectors: Vectors) -> int:
        store = partial(complete, jobs=done, vectors=vectors)
        return await self.db.write(store, begin=locks.BEGIN_SHARING_SPACES)

    async def release_leases(self, space: int | None = None) -> None:
        """Release this daemon's leases, but not those of other daemons."""
        await self.db.write(partial(release_leases, daemon=self.db.daemon, space=space))

    async def postpone(self, postponed: Sequence[Job], *, not_before: int, error: str) -> None:
        server_time = self.db.server_ms(not_before)
        await self.db.write(partial(postpone, jobs=postponed, not_before=server_time, error=error))

    async def next_due(self, now: int, space: int | None = None) -> int | None:
        server_now = self.db.server_ms(now)
        found = await self.db.query(partial(next_due, daemon=self.db.daemon, now=server_now, space=space))
        return None if found is None else found - server_now + now
