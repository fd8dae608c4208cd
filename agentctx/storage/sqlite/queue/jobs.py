"""The statements of the outbox of embedding jobs on SQLite."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, Final

from agentctx.storage.file.driver import Connection
from agentctx.storage.file.vec0 import VectorRow
from agentctx.storage.jobs import FindNextDue, LeaseJobs, ReleaseLeases, StoreVectors
from agentctx.storage.records import Job
from agentctx.storage.sqlite import sql
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex


def _lease(conn: Connection, wanted: LeaseJobs) -> list[Any]:
    rows = conn.execute(
        f"""SELECT jobs.id, jobs.chunk, jobs.space, jobs.hash, jobs.attempts
           FROM jobs JOIN chunks ON chunks.id = jobs.chunk JOIN entries ON entries.seq = chunks.entry
           WHERE jobs.state = 'pending' AND jobs.not_before <= ? AND jobs.leased_until <= ?
             AND jobs.id NOT IN (SELECT value FROM json_each(?)) {_of(wanted.space)}
           ORDER BY jobs.id LIMIT ?""",  # noqa: S608 - a number
        (wanted.lease.now, wanted.lease.now, json.dumps(wanted.exclude), wanted.limit),
    ).fetchall()
    leased = [(wanted.lease.until, row[0]) for row in rows]
    conn.executemany("UPDATE jobs SET leased_until = ? WHERE id = ?", leased)
    return rows


def _release(conn: Connection, wanted: ReleaseLeases) -> None:
    conn.execute(f"UPDATE jobs SET leased_until = 0 WHERE leased_until > 0 {_of(wanted.space)}")  # noqa: S608 - a number


def _store(conn: Connection, wanted: StoreVectors) -> int:
    pending: dict[int, list[VectorRow]] = defaultdict(list)
    for job, vector in zip(wanted.jobs, wanted.vectors, strict=True):
        if _take(conn, job):
            pending[job.space].append((job.chunk, *_scope_of(conn, job.chunk), vector.tobytes()))
    for space, found in pending.items():
        SpaceIndex(space).insert(conn, found)
    return sum(len(found) for found in pending.values())


def _next_due(conn: Connection, wanted: FindNextDue) -> int | None:
    (found,) = conn.execute(
        f"""SELECT MIN(MAX(not_before, leased_until)) FROM jobs
           WHERE state = 'pending' AND MAX(not_before, leased_until) > ? {_of(wanted.space)}""",  # noqa: S608 - a number
        (wanted.now,),
    ).fetchone()
    return None if found is None else int(found)


def _of(space: int | None) -> str:
    """Return the SQL condition that a job belongs to the space; empty for all spaces."""
    return "" if space is None else f"AND jobs.space = {space:d}"


def _take(conn: Connection, job: Job) -> bool:
    deleted = conn.execute(
        "DELETE FROM jobs WHERE id = ? AND hash = ? AND space = ?", (job.id, job.hash, job.space)
    )
    return bool(deleted.rowcount)


def _scope_of(conn: Connection, chunk: int) -> tuple[str, str, str]:
    row = conn.execute(
        """SELECT entries.namespace, entries.collection, entries.session
           FROM chunks JOIN entries ON entries.seq = chunks.entry WHERE chunks.id = ?""",
        (chunk,),
    ).fetchone()
    return row[0], row[1], row[2]


JOB_STATEMENTS: Final[sql.Functions] = {
    LeaseJobs: _lease,
    ReleaseLeases: _release,
    StoreVectors: _store,
    FindNextDue: _next_due,
}
