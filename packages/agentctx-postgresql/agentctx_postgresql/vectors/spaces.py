"""Spaces on PostgreSQL: their tables, the jobs that they lack, and the statements of `storage.spaces`.

Callers that enable or disable a space, or create or drop its table, must call `locks.lock_spaces` first: a
concurrent save that does not know the space would create no jobs for it.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from agentctx.storage import spaces
from agentctx.storage.records import PendingTotal, Space
from agentctx.storage.spaces import (
    CountPending,
    CreateMissingJobs,
    CreateVectors,
    DropVectors,
    FillAtOnce,
    HasGaps,
    LockSpaces,
    RequireAlone,
    SelectSpaces,
    SetState,
    SpaceStorage,
)
from agentctx.storage.steps import Follower, Rows
from agentctx_postgresql import locks, presence, sql
from agentctx_postgresql.connections import PostgresqlConnections
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.upkeep import leases

BACKFILL_LEASE_MS: Final = 60_000
"""Renewed at each step. Two daemons at once would only do the same work twice."""

_SELECT: Final = """SELECT id, fingerprint, generation, state, enabled, dimension, canary, approved,
    comparison FROM spaces"""
_CREATE: Final = """
CREATE TABLE vec_{space:d} (
  chunk bigint PRIMARY KEY REFERENCES chunks (id),
  namespace text COLLATE "C" NOT NULL,
  x xid8 NOT NULL DEFAULT pg_current_xact_id(),
  embedding halfvec({dimension:d}) NOT NULL);
ALTER TABLE vec_{space:d} ALTER embedding SET STATISTICS 0;
CREATE INDEX ON vec_{space:d} (namespace);
CREATE INDEX ON vec_{space:d} (x)"""
_CREATE_MISSING_JOBS: Final = """
WITH missing AS (
  SELECT c.id, c.hash FROM chunks c JOIN entries e ON e.seq = c.entry AND e.live
  WHERE c.id > $4 AND {missing} ORDER BY c.id LIMIT $3),
made AS (
  INSERT INTO jobs (chunk, space, hash, created) SELECT id, $1::int, hash, $2 FROM missing ORDER BY id
  ON CONFLICT (chunk, space) DO NOTHING RETURNING 1)
SELECT (SELECT count(*) FROM made), max(id) FROM missing"""
JOBS_PER_STEP: Final = 1_000
_NO_JOB: Final = "NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.chunk = c.id AND jobs.space = $1)"
_NO_VECTOR: Final = "NOT EXISTS (SELECT 1 FROM vec_{space:d} v WHERE v.chunk = c.id)"


async def get(conn: Connection, space_id: int) -> Space:
    """Return the space. Raises `NotFound`."""
    return await sql.follow(conn, spaces.get(space_id), SPACE_STATEMENTS)


async def create_missing_jobs(
    conn: Connection, space_id: int, *, now: int, limit: int | None = None, after: int = 0
) -> tuple[int, int | None]:
    """Create jobs for live chunks above `after` with neither vector nor job in the space, if it is enabled.

    Returns how many, of up to `limit` chunks, and the last chunk that lacked one; None at the end.
    """
    await locks.lock_spaces_shared(conn)
    space = await get(conn, space_id)
    if not space.enabled:
        return 0, None
    sql = _CREATE_MISSING_JOBS.format(missing=_missing(space))
    made, last = await conn.fetchrow(sql, space.id, now, limit, after)
    return made, last


async def create_vectors(conn: Connection, space_id: int, dimension: int) -> None:
    """Create the table of a space. Call `locks.lock_spaces` first."""
    await conn.execute(_CREATE.format(space=space_id, dimension=dimension))


async def drop_vectors(conn: Connection, space_id: int) -> None:
    """Drop the table of a space, if it exists. Call `locks.lock_spaces` first."""
    await conn.execute(f"DROP TABLE IF EXISTS vec_{space_id:d}")


def _missing(space: Space) -> str:
    """Return the condition that a chunk `c` has neither a vector nor a job."""
    if space.dimension is None:
        return _NO_JOB
    return f"{_NO_JOB} AND {_NO_VECTOR.format(space=space.id)}"


async def _select(conn: Connection, wanted: SelectSpaces) -> list[Any]:
    return await sql.fetch(conn, Rows(f"{_SELECT} WHERE {wanted.condition} ORDER BY id DESC", wanted.values))


async def _has_gaps(conn: Connection, wanted: HasGaps) -> bool:
    return bool(
        await conn.fetchval(
            f"""SELECT EXISTS (SELECT 1 FROM chunks c JOIN entries e ON e.seq = c.entry AND e.live
                WHERE {_missing(wanted.space)})""",  # noqa: S608 - of numbers
            wanted.space.id,
        )
    )


async def _set_state(conn: Connection, wanted: SetState) -> None:
    await conn.execute("UPDATE spaces SET state = $2 WHERE id = $1", wanted.space, wanted.state.value)


async def _backfill(conn: Connection, wanted: CreateMissingJobs) -> int:
    return (await create_missing_jobs(conn, wanted.space, now=wanted.now, limit=wanted.limit))[0]


async def _later(_conn: Connection, _statement: FillAtOnce) -> None:
    """Do nothing: `PostgresqlSpaces` creates the jobs in steps."""


async def total_pending(conn: Connection, space_id: int) -> PendingTotal:
    """Return the number of jobs of a space, and the size of the pending texts without overlaps of chunks."""
    row = await conn.fetchrow(
        """WITH owing AS (
             SELECT chunks.entry, count(*) AS chunks FROM jobs JOIN chunks ON chunks.id = jobs.chunk
             WHERE jobs.space = $1 AND jobs.state = 'pending' GROUP BY chunks.entry)
           SELECT (SELECT count(*) FROM jobs WHERE space = $1 AND state = 'pending'),
                  (SELECT count(*) FROM jobs WHERE space = $1 AND state = 'buried'),
                  (SELECT coalesce(sum(e.size + owing.chunks * octet_length(e.header)), 0)::bigint
                   FROM owing JOIN entries e ON e.seq = owing.entry)""",
        space_id,
    )
    return PendingTotal(*row)


SPACE_STATEMENTS: Final[sql.Functions] = {
    SelectSpaces: _select,
    LockSpaces: lambda conn, _: locks.lock_spaces(conn),
    RequireAlone: lambda conn, each: presence.require_alone(conn, each.daemon),
    SetState: _set_state,
    CreateVectors: lambda conn, each: create_vectors(conn, each.space, each.dimension),
    DropVectors: lambda conn, each: drop_vectors(conn, each.space),
    HasGaps: _has_gaps,
    FillAtOnce: _later,
    CreateMissingJobs: _backfill,
    CountPending: lambda conn, each: total_pending(conn, each.space),
}


class PostgresqlSpaces(SpaceStorage):
    """`SpaceStorage` on a PostgreSQL server, where one daemon at a time creates missing jobs, in steps."""

    def __init__(self, follower: Follower, connections: PostgresqlConnections) -> None:
        super().__init__(follower)
        self._connections = connections

    async def _fill(self, space_id: int) -> None:
        """Create missing jobs in steps, so that others can save in between, unless another daemon does."""
        after: int | None = 0
        while after is not None:
            if not await leases.take(self._connections, _backfill_task(space_id), BACKFILL_LEASE_MS):
                return
            step = partial(create_missing_jobs, space_id=space_id, after=after, now=self.db.clock())
            _, after = await self._connections.write(partial(step, limit=JOBS_PER_STEP))
        await leases.release(self._connections, _backfill_task(space_id))

    async def backfill(self, space_id: int, *, limit: int = 1_000) -> int | None:
        if not await leases.take(self._connections, _backfill_task(space_id), BACKFILL_LEASE_MS):
            return None
        made = await super().backfill(space_id, limit=limit)
        if not made:
            await leases.release(self._connections, _backfill_task(space_id))
        return made


def _backfill_task(space_id: int) -> str:
    return f"backfill {space_id}"
