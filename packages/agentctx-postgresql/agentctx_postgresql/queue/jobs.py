"""The statements of the outbox of embedding jobs on PostgreSQL. Times are the server's."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from agentctx.storage.jobs import FindNextDue, LeaseJobs, ReleaseLeases, StoreVectors
from agentctx_postgresql import pgvector, sql
from agentctx_postgresql.driver import Connection

# Jobs reserved by a daemon's own save may be claimed only by that daemon, but at any time.
_CLAIM: Final = """
WITH due AS (
  SELECT id FROM jobs
  WHERE state = 'pending' AND not_before <= $1 AND (leased_until <= $1 OR reserved AND daemon = $2)
    AND id <> ALL ($3::bigint[]) AND ($4::int IS NULL OR space = $4)
  ORDER BY id LIMIT $5 FOR UPDATE SKIP LOCKED)
UPDATE jobs SET leased_until = $6, daemon = $2, reserved = false FROM due WHERE jobs.id = due.id
RETURNING jobs.id, jobs.chunk, jobs.space, jobs.hash, jobs.attempts"""
_COMPLETE: Final = """
WITH given AS (SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::halfvec[]) AS g (id, hash, vector)),
gone AS (
  DELETE FROM jobs USING given WHERE jobs.id = given.id AND jobs.hash = given.hash AND jobs.space = {space:d}
  RETURNING jobs.chunk, given.vector)
INSERT INTO vec_{space:d} (chunk, namespace, embedding)
SELECT gone.chunk, e.namespace, gone.vector
FROM gone JOIN chunks c ON c.id = gone.chunk JOIN entries e ON e.seq = c.entry
RETURNING 1"""
_DUE_AT: Final = "greatest(not_before, CASE WHEN reserved AND daemon = $2 THEN 0 ELSE leased_until END)"


async def _lease(conn: Connection, wanted: LeaseJobs) -> list[Any]:
    lease = wanted.lease
    rows: list[Any] = await conn.fetch(
        _CLAIM, lease.now, lease.daemon, wanted.exclude, wanted.space, wanted.limit, lease.until
    )
    return rows


async def _release(conn: Connection, wanted: ReleaseLeases) -> None:
    await conn.execute(
        """UPDATE jobs SET leased_until = 0, reserved = false
           WHERE daemon = $1 AND leased_until > 0 AND ($2::int IS NULL OR space = $2)""",
        wanted.daemon,
        wanted.space,
    )


async def _store(conn: Connection, wanted: StoreVectors) -> int:
    by_space: dict[int, list[tuple[int, bytes, bytes]]] = defaultdict(list)
    given = zip(wanted.jobs, wanted.vectors, strict=True)
    for job, vector in sorted(given, key=lambda each: each[0].id):
        by_space[job.space].append((job.id, job.hash, pgvector.encode_halfvec(vector)))
    stored = 0
    for space, rows in by_space.items():
        if await conn.fetchval("SELECT to_regclass($1)", f"vec_{space:d}") is not None:
            columns = [list(column) for column in zip(*rows, strict=True)]
            stored += len(await conn.fetch(_COMPLETE.format(space=space), *columns))
    return stored


async def _next_due(conn: Connection, wanted: FindNextDue) -> int | None:
    found = await conn.fetchval(
        f"""SELECT min({_DUE_AT}) FROM jobs
            WHERE state = 'pending' AND {_DUE_AT} > $1 AND ($3::int IS NULL OR space = $3)""",  # noqa: S608 - constants
        wanted.now,
        wanted.daemon,
        wanted.space,
    )
    return None if found is None else int(found)


JOB_STATEMENTS: Final[sql.Functions] = {
    LeaseJobs: _lease,
    ReleaseLeases: _release,
    StoreVectors: _store,
    FindNextDue: _next_due,
}
