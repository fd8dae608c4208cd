"""Spaces, each with one model's vectors: building → active ⇄ kept → retired. The active one is searched.

Callers that enable or disable a space, or create or drop its table, must call `locks.lock_spaces` first: a
concurrent save that does not know the space would create no jobs for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from agentctx.errors import Conflict, NotFound
from agentctx.storage.records import Space, SpaceState
from agentctx.storage.spaces import (
    LIVING,
    fingerprint_text,
    former_spaces,
    require_complete,
    require_state,
    superseded,
)
from agentctx.storage.vectors import Vectors
from agentctx_postgresql import locks, presence
from agentctx_postgresql.connections import PostgresqlPart, queries, writes
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.queue import jobs
from agentctx_postgresql.upkeep import leases

BACKFILL_LEASE_MS: Final = 60_000
"""Renewed at each step. Two daemons at once would only do the same work twice."""

_SELECT: Final = """SELECT id, fingerprint, generation, state, enabled, dimension, canary, approved,
    comparison FROM spaces """
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


async def all_spaces(conn: Connection) -> list[Space]:
    """Return every space, newest first."""
    return [_space_of(row) for row in await conn.fetch(f"{_SELECT} ORDER BY id DESC")]


async def get(conn: Connection, space_id: int) -> Space:
    """Return the space. Raises `NotFound`."""
    row = await conn.fetchrow(f"{_SELECT} WHERE id = $1", space_id)
    if row is None:
        raise NotFound(f"Space {space_id} does not exist.")
    return _space_of(row)


async def open_spaces(
    conn: Connection, fingerprints: Sequence[Mapping[str, str | int]], *, daemon: str, now: int
) -> tuple[list[Space], list[int]]:
    """Enable the newest unretired space of each fingerprint, created if needed, and no others; return them.

    Also returns the ids of the newly enabled ones, which need `create_missing_jobs`.

    Raises:
        ConfigInvalid: another daemon that has the database open has enabled other spaces.
    """
    await locks.lock_spaces(conn)
    opened = [await _find_or_create(conn, fingerprint_text(each), now=now) for each in fingerprints]
    if set(await _enabled(conn)) - set(opened):
        await presence.require_alone(conn, daemon)
    enabled = await _enable_only(conn, opened)
    return [await get(conn, space_id) for space_id in opened], enabled


async def renew(conn: Connection, space_id: int, *, now: int) -> Space:
    """Create the next generation of a space whose model changed silently, and enable it instead.

    Jobs are created as after `open_spaces`.
    """
    await locks.lock_spaces(conn)
    old = await get(conn, space_id)
    new_id = await _insert(conn, fingerprint_text(old.fingerprint), generation=old.generation + 1, now=now)
    others = [each for each in await _enabled(conn) if each != space_id]
    await _enable_only(conn, [new_id, *others])
    return await get(conn, new_id)


async def prepare(conn: Connection, space_id: int, canary: Vectors) -> Space:
    """Set the dimension from the canary's vector, and create the table."""
    await locks.lock_spaces(conn)
    space = await get(conn, space_id)
    if space.dimension is None and space.state is not SpaceState.RETIRED:
        dimension = int(canary.shape[0])
        await conn.execute(
            "UPDATE spaces SET dimension = $2, canary = $3 WHERE id = $1",
            space_id,
            dimension,
            canary.astype(np.float32).tobytes(),
        )
        await create_vectors(conn, space_id, dimension)
    return await get(conn, space_id)


async def activate(conn: Connection, space_id: int, *, max_pending: int | None = None) -> Space:
    """Switch searches to this space. The previous one is kept; if it is enabled, it stays complete.

    Raises:
        NotFound: the space does not exist.
        Conflict: it is retired, lacks chunks, or more than `max_pending` jobs are pending. Nothing was
            changed.
    """
    await locks.lock_spaces(conn)
    space = await get(conn, space_id)
    require_state(space, *LIVING)
    if max_pending is not None:
        await _require_complete(conn, space, max_pending)
    for other in superseded(space, await _living(conn)):
        await _retire(conn, other)
    await conn.execute("UPDATE spaces SET state = 'kept' WHERE state = 'active' AND id <> $1", space_id)
    await conn.execute("UPDATE spaces SET state = 'active' WHERE id = $1", space_id)
    return await get(conn, space_id)


async def retire_former(conn: Connection, answering: int) -> list[int]:
    """Retire every space that is neither active nor being built: kept ones, and those not enabled.

    Raises:
        Conflict: the space `answering` is not active.
    """
    await locks.lock_spaces(conn)
    require_state(await get(conn, answering), SpaceState.ACTIVE)
    gone = former_spaces(await _living(conn))
    for space in gone:
        await _retire(conn, space)
    return [space.id for space in gone]


async def approve(conn: Connection, space_id: int, *, now: int) -> None:
    """Approve the cost of filling the space."""
    await conn.execute("UPDATE spaces SET approved = $2 WHERE id = $1", space_id, now)


async def record_comparison(conn: Connection, space_id: int, comparison: Mapping[str, Any]) -> None:
    """Record the comparison of the space with the active one."""
    await conn.execute(
        "UPDATE spaces SET comparison = $2 WHERE id = $1", space_id, json.dumps(dict(comparison))
    )


async def disable_all(conn: Connection, *, daemon: str) -> None:
    """Disable all spaces and remove their jobs. Raises like `open_spaces`."""
    await locks.lock_spaces(conn)
    if await _enabled(conn):
        await presence.require_alone(conn, daemon)
    await conn.execute("UPDATE spaces SET enabled = false WHERE enabled")
    await conn.execute("DELETE FROM jobs")


async def adopt(conn: Connection, originals: Sequence[Space], *, now: int) -> dict[int, int]:
    """Create the unretired spaces of another database and retire all others; return our ids by theirs.

    Raises:
        Conflict: a space of the same model has another dimension.
    """
    await locks.lock_spaces(conn)
    await conn.execute("UPDATE spaces SET state = 'kept' WHERE state = 'active'")
    living = [space for space in originals if space.state is not SpaceState.RETIRED]
    adopted = {
        space.id: await _adopt(conn, space, now=now) for space in sorted(living, key=lambda each: each.id)
    }
    for other in await _living(conn):
        if other.id not in adopted.values():
            await _retire(conn, other)
    return adopted


async def _adopt(conn: Connection, space: Space, *, now: int) -> int:
    named = (fingerprint_text(space.fingerprint), space.generation)
    same = "fingerprint = $1 AND generation = $2"
    await conn.execute(f"DELETE FROM spaces WHERE {same} AND state = 'retired'", *named)  # noqa: S608 - constant
    await conn.execute(
        """INSERT INTO spaces (fingerprint, generation, state, enabled, created)
           VALUES ($1, $2, 'building', false, $3) ON CONFLICT DO NOTHING""",
        *named,
        now,
    )
    here = await conn.fetchval(f"SELECT id FROM spaces WHERE {same}", *named)  # noqa: S608 - constant
    if space.canary is not None and (await prepare(conn, here, space.canary)).dimension != space.dimension:
        raise Conflict(f"The vectors of space {here} do not have the dimension of the ones to be copied.")
    await conn.execute(
        "UPDATE spaces SET state = $2, enabled = $3, approved = $4, comparison = $5 WHERE id = $1",
        here,
        space.state.value,
        space.enabled,
        now if space.approved else None,
        None if space.comparison is None else json.dumps(dict(space.comparison)),
    )
    return int(here)


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


async def _find_or_create(conn: Connection, text: str, *, now: int) -> int:
    row = await conn.fetchrow(f"{_SELECT} WHERE fingerprint = $1 ORDER BY generation DESC LIMIT 1", text)
    newest = None if row is None else _space_of(row)
    if newest is None or newest.state is SpaceState.RETIRED:
        generation = 1 if newest is None else newest.generation + 1
        return await _insert(conn, text, generation=generation, now=now)
    return newest.id


async def _insert(conn: Connection, fingerprint: str, *, generation: int, now: int) -> int:
    return int(
        await conn.fetchval(
            """INSERT INTO spaces (fingerprint, generation, state, enabled, created)
               SELECT $1, $2,
                 CASE WHEN EXISTS (SELECT 1 FROM spaces WHERE state = 'active') THEN 'building'
                      ELSE 'active' END,
                 false, $3
               RETURNING id""",
            fingerprint,
            generation,
            now,
        )
    )


async def _enabled(conn: Connection) -> list[int]:
    return [row[0] for row in await conn.fetch("SELECT id FROM spaces WHERE enabled ORDER BY id")]


async def _enable_only(conn: Connection, space_ids: Sequence[int]) -> list[int]:
    """Enable only these spaces; return those that were not enabled before."""
    before = await _enabled(conn)
    wanted = list(space_ids)
    left = [each for each in before if each not in wanted]
    await conn.execute("DELETE FROM jobs WHERE space = ANY ($1::int[])", left)
    await conn.execute("UPDATE spaces SET enabled = id = ANY ($1::int[]) WHERE state <> 'retired'", wanted)
    return sorted(set(wanted).difference(before))


async def _living(conn: Connection) -> list[Space]:
    return [_space_of(row) for row in await conn.fetch(f"{_SELECT} WHERE state <> 'retired' ORDER BY id")]


async def _retire(conn: Connection, space: Space) -> None:
    await conn.execute("DELETE FROM jobs WHERE space = $1", space.id)
    await conn.execute("UPDATE spaces SET state = 'retired', enabled = false WHERE id = $1", space.id)
    await drop_vectors(conn, space.id)


async def _require_complete(conn: Connection, space: Space, max_pending: int) -> None:
    pending = await conn.fetchval(
        "SELECT count(*) FROM jobs WHERE space = $1 AND state = 'pending'", space.id
    )
    has_gaps = await conn.fetchval(
        f"""SELECT EXISTS (SELECT 1 FROM chunks c JOIN entries e ON e.seq = c.entry AND e.live
            WHERE {_missing(space)})""",  # noqa: S608 - of numbers
        space.id,
    )
    require_complete(space, pending=pending, max_pending=max_pending, has_gaps=has_gaps)


def _space_of(row: Any) -> Space:
    return Space(
        id=row["id"],
        fingerprint=json.loads(row["fingerprint"]),
        generation=row["generation"],
        state=SpaceState(row["state"]),
        enabled=row["enabled"],
        dimension=row["dimension"],
        canary=None if row["canary"] is None else np.frombuffer(row["canary"], dtype=np.float32),
        approved=row["approved"] is not None,
        comparison=None if row["comparison"] is None else json.loads(row["comparison"]),
    )


class PostgresqlSpaces(PostgresqlPart):
    """`SpaceStorage` on a PostgreSQL server."""

    all = queries(all_spaces)
    pending = queries(jobs.pending)
    total_pending = queries(jobs.total_pending)
    prepare = writes(prepare)
    activate = writes(activate)
    record_comparison = writes(record_comparison)
    retire_former = writes(retire_former)

    async def open(self, fingerprint: Mapping[str, str | int]) -> Space:
        return (await self.open_all([fingerprint]))[0]

    async def open_all(self, fingerprints: Sequence[Mapping[str, str | int]]) -> list[Space]:
        now = self.db.clock()
        opened, enabled = await self.db.write(
            partial(open_spaces, fingerprints=fingerprints, daemon=self.db.daemon, now=now)
        )
        for space_id in enabled:
            await self._create_all_jobs(space_id)
        return opened

    async def disable_all(self) -> None:
        await self.db.write(partial(disable_all, daemon=self.db.daemon))

    async def renew(self, space_id: int) -> Space:
        renewed = await self.db.write(partial(renew, space_id=space_id, now=self.db.clock()))
        await self._create_all_jobs(renewed.id)
        return renewed

    async def _create_all_jobs(self, space_id: int) -> None:
        """Create missing jobs in steps, so that others can save in between, unless another daemon does."""
        after: int | None = 0
        while after is not None:
            if not await leases.take(self.db, _backfill_task(space_id), BACKFILL_LEASE_MS):
                return
            step = partial(create_missing_jobs, space_id=space_id, after=after, now=self.db.clock())
            _, after = await self.db.write(partial(step, limit=JOBS_PER_STEP))
        await leases.release(self.db, _backfill_task(space_id))

    async def approve(self, space_id: int) -> None:
        await self.db.write(partial(approve, space_id=space_id, now=self.db.clock()))

    async def backfill(self, space_id: int, *, limit: int = 1_000) -> int | None:
        if not await leases.take(self.db, _backfill_task(space_id), BACKFILL_LEASE_MS):
            return None
        now = self.db.clock()
        step = partial(create_missing_jobs, space_id=space_id, now=now, limit=limit)
        made, _ = await self.db.write(step)
        if not made:
            await leases.release(self.db, _backfill_task(space_id))
        return made


def _backfill_task(space_id: int) -> str:
    return f"backfill {space_id}"
