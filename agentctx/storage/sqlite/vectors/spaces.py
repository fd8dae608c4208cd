"""Spaces on SQLite: their rows, the jobs that they lack, and the statements of `storage.spaces`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agentctx.storage import spaces
from agentctx.storage.file.driver import Connection
from agentctx.storage.records import PendingTotal, Space, SpaceState
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
    space_of,
)
from agentctx.storage.sqlite import sql
from agentctx.storage.sqlite.entries.rows import CUE_BYTES
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex

_ALL: Final = 2**62

# In the schema, which has three states, a kept space has the state `building`.
_SELECT: Final = """SELECT id, fingerprint, generation,
    CASE WHEN state = 'building' AND kept_since IS NOT NULL THEN 'kept' ELSE state END,
    enabled, dimension, canary, approved, comparison FROM spaces"""


def enabled_ids(conn: Connection) -> tuple[int, ...]:
    """Return the spaces that need a vector of every live chunk."""
    return tuple(row[0] for row in conn.execute("SELECT id FROM spaces WHERE enabled = 1"))


def awaited_ids(conn: Connection) -> tuple[int, ...]:
    """Return the space that answers; if there is none, all enabled spaces."""
    return tuple(row[0] for row in conn.execute("SELECT id FROM awaited_spaces"))


def prepared(conn: Connection) -> tuple[SpaceIndex, ...]:
    """Return existing, undamaged indexes; a damaged one must be rebuilt."""
    rows = conn.execute("SELECT id FROM spaces WHERE dimension IS NOT NULL AND state <> 'retired'").fetchall()
    indexes = (SpaceIndex(space) for (space,) in rows)
    return tuple(index for index in indexes if index.exists(conn))


def all_spaces(conn: Connection) -> list[Space]:
    """Return all spaces, newest first."""
    return [space_of(row) for row in _select(conn, SelectSpaces())]


def get(conn: Connection, space_id: int) -> Space:
    """Return the space. Raises `NotFound`."""
    return sql.follow(conn, spaces.get(space_id), SPACE_STATEMENTS)


def backfill(conn: Connection, space_id: int, *, now: int, limit: int) -> int:
    """Create jobs for up to `limit` live chunks without vector and job in the space, if it is enabled."""
    if not get(conn, space_id).enabled:
        return 0
    missing = _missing(conn, space_id)[:limit]
    create_jobs(conn, space_id, missing, now=now)
    return len(missing)


def create_jobs(conn: Connection, space_id: int, chunks: Sequence[int], *, now: int) -> None:
    """Create jobs for the given chunks that have none in the space."""
    conn.executemany(
        """INSERT INTO jobs (chunk, space, hash, state, attempts, not_before, leased_until, created)
           SELECT id, :space, hash, 'pending', 0, 0, 0, :now FROM chunks
           WHERE id = :chunk AND NOT EXISTS (SELECT 1 FROM jobs WHERE chunk = :chunk AND space = :space)""",
        [{"space": space_id, "now": now, "chunk": chunk} for chunk in chunks],
    )


def _missing(conn: Connection, space_id: int) -> list[int]:
    own = SpaceIndex(space_id)
    stored = set(own.chunk_ids(conn)) if own in prepared(conn) else set()
    rows = conn.execute(
        """SELECT chunks.id FROM chunks JOIN entries ON entries.seq = chunks.entry AND entries.live = 1
           WHERE chunks.id NOT IN (SELECT chunk FROM jobs WHERE space = ?) ORDER BY chunks.id""",
        (space_id,),
    )
    return [row[0] for row in rows if row[0] not in stored]


def _select(conn: Connection, wanted: SelectSpaces) -> list[Any]:
    query = f"{_SELECT} WHERE {wanted.condition} ORDER BY id DESC"
    return conn.execute(query, wanted.values).fetchall()


def _set_state(conn: Connection, wanted: SetState) -> None:
    is_kept = wanted.state is SpaceState.KEPT
    conn.execute(
        "UPDATE spaces SET state = ?, kept_since = ? WHERE id = ?",
        ("building" if is_kept else wanted.state.value, wanted.now if is_kept else None, wanted.space),
    )


def total_pending(conn: Connection, space_id: int) -> PendingTotal:
    """Return the pending and buried jobs of a space, and the size of pending texts, ignoring overlaps."""
    pending, buried = conn.execute(
        """SELECT COUNT(*) FILTER (WHERE state = 'pending'), COUNT(*) FILTER (WHERE state = 'buried')
           FROM jobs WHERE space = ?""",
        (space_id,),
    ).fetchone()
    (size,) = conn.execute(
        f"""SELECT COALESCE(SUM(octet_length(entries.content) + {CUE_BYTES}
                               + owing.chunks * octet_length(entries.header)), 0)
           FROM (SELECT chunks.entry AS entry, COUNT(*) AS chunks FROM jobs
                 JOIN chunks ON chunks.id = jobs.chunk
                 WHERE jobs.space = ? AND jobs.state = 'pending' GROUP BY chunks.entry) owing
           JOIN entries ON entries.seq = owing.entry""",  # noqa: S608 - constant
        (space_id,),
    ).fetchone()
    return PendingTotal(pending, buried, size)


SPACE_STATEMENTS: Final[sql.Functions] = {
    SelectSpaces: _select,
    LockSpaces: lambda _conn, _statement: None,
    RequireAlone: lambda _conn, _statement: None,
    SetState: _set_state,
    CreateVectors: lambda conn, each: SpaceIndex(each.space).create(conn, each.dimension),
    DropVectors: lambda conn, each: SpaceIndex(each.space).drop(conn),
    HasGaps: lambda conn, each: bool(_missing(conn, each.space.id)),
    FillAtOnce: lambda conn, each: backfill(conn, each.space, now=each.now, limit=_ALL),
    CreateMissingJobs: lambda conn, each: backfill(conn, each.space, now=each.now, limit=each.limit),
    CountPending: lambda conn, each: total_pending(conn, each.space),
}
