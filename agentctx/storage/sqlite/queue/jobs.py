"""The outbox of embedding jobs: pending → done (row deleted), or pending ⇄ buried."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Final

from agentctx.storage.chunk_texts import Piece, text_hash
from agentctx.storage.file.driver import Connection
from agentctx.storage.file.vec0 import VectorRow
from agentctx.storage.records import BuriedRow, Job, QueueDepth
from agentctx.storage.sqlite.connections import SqlitePart, reads, writes
from agentctx.storage.sqlite.entries.rows import texts_of_version
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.vectors import Vectors

_DAMAGED: Final = "the text is damaged on the disk; `agentctx doctor` names the entry"


def claim(
    conn: Connection,
    limit: int,
    *,
    now: int,
    lease_until: int,
    exclude: Collection[int] = (),
    space: int | None = None,
) -> list[Job]:
    """Lease due jobs, oldest first, of one space or of all.

    A job whose text is damaged is buried; otherwise a text that was never saved would be embedded.
    """
    jobs: list[Job] = []
    while wanted := limit - len(jobs):
        known = [*exclude, *(job.id for job in jobs)]
        rows = _due(conn, wanted, now=now, exclude=known, space=space)
        jobs += _undamaged(conn, rows)
        if len(rows) < wanted:
            break
    conn.executemany("UPDATE jobs SET leased_until = ? WHERE id = ?", [(lease_until, job.id) for job in jobs])
    return jobs


def _due(conn: Connection, limit: int, *, now: int, exclude: Collection[int], space: int | None) -> list[Any]:
    return conn.execute(
        f"""SELECT jobs.id, jobs.chunk, jobs.space, jobs.hash, jobs.attempts, chunks.cue,
                  chunks.start_at, chunks.end_at, entries.seq, entries.id, entries.collection
           FROM jobs JOIN chunks ON chunks.id = jobs.chunk JOIN entries ON entries.seq = chunks.entry
           WHERE jobs.state = 'pending' AND jobs.not_before <= ? AND jobs.leased_until <= ?
             AND jobs.id NOT IN (SELECT value FROM json_each(?)) {_of(space)}
           ORDER BY jobs.id LIMIT ?""",  # noqa: S608 - a number
        (now, now, json.dumps(list(exclude)), limit),
    ).fetchall()


def _undamaged(conn: Connection, rows: Sequence[Any]) -> list[Job]:
    texts = {seq: texts_of_version(conn, seq) for seq in {row[8] for row in rows}}
    sound = []
    for number, chunk, space, digest, attempts, cue, start, end, seq, entry, collection in rows:
        text = texts[seq].embedded(Piece(cue, start, end))
        job = Job(number, chunk, space, digest, text, entry, collection, attempts)
        if text_hash(text) == digest:
            sound.append(job)
        else:
            bury(conn, job, _DAMAGED)
    return sound


def release_leases(conn: Connection, space: int | None = None) -> None:
    """Free all leases of a dead worker, in one space or in all."""
    conn.execute(f"UPDATE jobs SET leased_until = 0 WHERE leased_until > 0 {_of(space)}")  # noqa: S608 - a number


def complete(conn: Connection, jobs: Sequence[Job], vectors: Vectors) -> int:
    """Store vectors and delete their jobs; drop vectors whose job is gone. Return how many were stored."""
    pending: dict[int, list[VectorRow]] = defaultdict(list)
    for job, vector in zip(jobs, vectors, strict=True):
        if _take(conn, job):
            pending[job.space].append((job.chunk, *_scope_of(conn, job.chunk), vector.tobytes()))
    for space, found in pending.items():
        SpaceIndex(space).insert(conn, found)
    return sum(len(found) for found in pending.values())


def postpone(conn: Connection, jobs: Sequence[Job], *, not_before: int, error: str) -> None:
    """Count a failed attempt and release the lease."""
    conn.executemany(
        """UPDATE jobs SET attempts = attempts + 1, not_before = ?, leased_until = 0, last_error = ?
           WHERE id = ? AND hash = ? AND space = ? AND state = 'pending'""",
        [(not_before, error, job.id, job.hash, job.space) for job in jobs],
    )


def bury(conn: Connection, job: Job, reason: str) -> None:
    """Keep the job with the reason; it is not claimed again until it is retried."""
    conn.execute(
        """UPDATE jobs SET state = 'buried', attempts = attempts + 1, leased_until = 0, last_error = ?
           WHERE id = ? AND hash = ? AND space = ?""",
        (reason, job.id, job.hash, job.space),
    )


def retry_buried(conn: Connection) -> int:
    """Make all buried jobs pending again, without failed attempts."""
    return int(
        conn.execute(
            "UPDATE jobs SET state = 'pending', attempts = 0, not_before = 0 WHERE state = 'buried'"
        ).rowcount
    )


def next_due(conn: Connection, now: int, space: int | None = None) -> int | None:
    """Return when the next pending job, of one space or of all, that is not due yet can be claimed."""
    row = conn.execute(
        f"""SELECT MIN(MAX(not_before, leased_until)) FROM jobs
           WHERE state = 'pending' AND MAX(not_before, leased_until) > ? {_of(space)}""",  # noqa: S608 - a number
        (now,),
    ).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def depth(conn: Connection) -> QueueDepth:
    """Return the number of jobs of the answering space; of all spaces if none answers."""
    row = conn.execute(
        """SELECT COUNT(*) FILTER (WHERE state = 'pending'), COUNT(*) FILTER (WHERE state = 'buried'),
                  MIN(created) FILTER (WHERE state = 'pending') FROM jobs WHERE space IN awaited_spaces"""
    ).fetchone()
    return QueueDepth(*row)


def buried(conn: Connection, limit: int = 100) -> list[BuriedRow]:
    """Return the buried jobs, oldest first."""
    rows = conn.execute(
        """SELECT jobs.id, entries.id, entries.collection, jobs.attempts, jobs.last_error
           FROM jobs JOIN chunks ON chunks.id = jobs.chunk JOIN entries ON entries.seq = chunks.entry
           WHERE jobs.state = 'buried' AND jobs.space IN awaited_spaces ORDER BY jobs.id LIMIT ?""",
        (limit,),
    )
    return [BuriedRow(*row) for row in rows]


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


class SqliteJobs(SqlitePart):
    """`OutboxStorage` on the SQLite file."""

    claim = writes(claim)
    release_leases = writes(release_leases)
    complete = writes(complete)
    postpone = writes(postpone)
    bury = writes(bury)
    retry_buried = writes(retry_buried)
    next_due = reads(next_due)
    depth = reads(depth)
    buried = reads(buried)
