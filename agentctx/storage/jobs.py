"""The outbox of embedding jobs on either engine: pending → done (row deleted), or pending ⇄ buried."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from agentctx.storage.chunk_texts import ChunkTexts, Piece, stored_cues, text_hash
from agentctx.storage.records import BuriedRow, Job, QueueDepth
from agentctx.storage.steps import Execute, ExecuteMany, Follower, Rows, Statement, Steps
from agentctx.storage.vectors import Vectors

_DAMAGED: Final = "the text is damaged on the disk; `agentctx doctor` names the entry"
_PIECES: Final = "SELECT id, entry, cue, start_at, end_at FROM chunks WHERE id IN ?numbers"
_TEXTS: Final = """SELECT seq, id, collection, content, attributes, labels, header FROM entries
    WHERE seq IN ?numbers"""
_POSTPONE: Final = """UPDATE jobs
    SET attempts = attempts + 1, not_before = ?, leased_until = 0, last_error = ?
    WHERE id = ? AND hash = ? AND space = ? AND state = 'pending'"""
_BURY: Final = """UPDATE jobs SET state = 'buried', attempts = attempts + 1, leased_until = 0, last_error = ?
    WHERE id = ? AND hash = ? AND space = ?"""
_RETRY: Final = "UPDATE jobs SET state = 'pending', attempts = 0, not_before = 0 WHERE state = 'buried'"
_DEPTH: Final = """SELECT count(*) FILTER (WHERE state = 'pending'), count(*) FILTER (WHERE state = 'buried'),
      min(created) FILTER (WHERE state = 'pending')
    FROM jobs WHERE space IN (SELECT id FROM awaited_spaces)"""
_BURIED: Final = """SELECT jobs.id, e.id, e.collection, jobs.attempts, jobs.last_error
    FROM jobs JOIN chunks ON chunks.id = jobs.chunk JOIN entries e ON e.seq = chunks.entry
    WHERE jobs.state = 'buried' AND jobs.space IN (SELECT id FROM awaited_spaces)
    ORDER BY jobs.id LIMIT ?"""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease of a daemon, by the clock of the database."""

    daemon: str
    now: int
    until: int


@dataclass(frozen=True, slots=True)
class LeaseJobs(Statement[Sequence[Any]]):
    """Leases due jobs, of one space or of all; answered with their id, chunk, space, hash and attempts."""

    lease: Lease
    limit: int
    exclude: Sequence[int]
    space: int | None


@dataclass(frozen=True, slots=True)
class ReleaseLeases(Statement[None]):
    """Ends the leases of a daemon, in one space or in all."""

    daemon: str
    space: int | None


@dataclass(frozen=True, slots=True)
class StoreVectors(Statement[int]):
    """Stores the vectors of the jobs that still exist, and removes these; answered with their number."""

    jobs: Sequence[Job]
    vectors: Vectors


@dataclass(frozen=True, slots=True)
class FindNextDue(Statement[int | None]):
    """Asks when the next pending job that the daemon cannot claim at `now` becomes due."""

    daemon: str
    now: int
    space: int | None


class OutboxStorage:
    """The embedding jobs, on either engine: of one space, or of all spaces if `space` is None.

    The caller's times are by its own clock.
    """

    def __init__(self, connections: Follower) -> None:
        self.db = connections

    async def claim(
        self,
        limit: int,
        *,
        now: int,
        lease_until: int,
        exclude: Collection[int] = (),
        space: int | None = None,
    ) -> list[Job]:
        """Lease up to `limit` pending jobs that are due and not leased, oldest first, without `exclude`."""
        began = self.db.server_ms(now)
        lease = Lease(self.db.daemon, began, began + lease_until - now)
        return await self.db.change(partial(_claim, lease, limit, exclude, space))

    async def release_leases(self, space: int | None = None) -> None:
        """Release every lease; called at startup by the sole owner of the database."""
        await self.db.change(lambda: iter(ReleaseLeases(self.db.daemon, space)))

    async def complete(self, jobs: Sequence[Job], vectors: Vectors) -> int:
        """Store the vectors, `(len(jobs), dimension)`, of the jobs that still exist, and remove these
        jobs.

        Returns how many were stored. The vectors of the other jobs, whose entries were changed or removed
        during the provider call, are dropped.
        """
        return await self.db.change(lambda: iter(StoreVectors(jobs, vectors)), shares_spaces=True)

    async def postpone(self, jobs: Sequence[Job], *, not_before: int, error: str) -> None:
        """Count a failed attempt; the jobs cannot be claimed before `not_before`."""
        at = self.db.server_ms(not_before)
        change = ExecuteMany(_POSTPONE, [(at, error, job.id, job.hash, job.space) for job in jobs])
        await self.db.change(lambda: iter(change))

    async def bury(self, job: Job, reason: str) -> None:
        """Bury the job with the reason; it stays in the table."""
        await self.db.change(lambda: iter(_buried(job, reason)))

    async def next_due(self, now: int, space: int | None = None) -> int | None:
        """Return when the next pending job becomes due, by its `not_before` and the end of its lease."""
        began = self.db.server_ms(now)
        found = await self.db.ask(FindNextDue(self.db.daemon, began, space))
        return None if found is None else found - began + now

    async def retry_buried(self) -> int:
        """Make all buried jobs pending again; return how many."""
        return await self.db.change(lambda: iter(Execute(_RETRY)))

    async def depth(self) -> QueueDepth:
        """Return the number of jobs of the active space, or of all spaces if none is active."""
        (row,) = await self.db.ask(Rows(_DEPTH))
        return QueueDepth(*row)

    async def buried(self, limit: int = 100) -> list[BuriedRow]:
        """Return the jobs that `depth` counts as buried, oldest first."""
        return [BuriedRow(*row) for row in await self.db.ask(Rows(_BURIED, (limit,)))]


def _claim(lease: Lease, limit: int, exclude: Collection[int], space: int | None) -> Steps[list[Job]]:
    """Lease due jobs, oldest first. One whose text is damaged is buried, so that it is never embedded."""
    jobs: list[Job] = []
    while wanted := limit - len(jobs):
        known = [*exclude, *(job.id for job in jobs)]
        rows = yield from LeaseJobs(lease, wanted, known, space)
        for job in (yield from _with_texts(rows)):
            if text_hash(job.text) == job.hash:
                jobs.append(job)
            else:
                yield from _buried(job, _DAMAGED)
        if len(rows) < wanted:
            break
    return jobs


def _with_texts(rows: Sequence[Any]) -> Steps[list[Job]]:
    found = yield from Rows(_PIECES, ([row[1] for row in rows],))
    pieces = {chunk: (seq, Piece(*piece)) for chunk, seq, *piece in found}
    entries = yield from Rows(_TEXTS, (list({seq for seq, _ in pieces.values()}),))
    texts = {
        seq: (entry, collection, ChunkTexts(str(content), stored_cues(attributes), labels, header))
        for seq, entry, collection, content, attributes, labels, header in entries
    }
    jobs = []
    for number, chunk, space, digest, attempts in sorted(rows):
        seq, piece = pieces[chunk]
        entry, collection, said = texts[seq]
        jobs.append(Job(number, chunk, space, digest, said.embedded(piece), entry, collection, attempts))
    return jobs


def _buried(job: Job, reason: str) -> Execute:
    return Execute(_BURY, (reason, job.id, job.hash, job.space))
