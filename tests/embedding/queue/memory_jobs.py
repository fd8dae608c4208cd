"""`OutboxStorage` in memory, fencing included."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.storage.jobs import OutboxStorage
from agentctx.storage.records import BuriedRow, Job, QueueDepth
from agentctx.storage.vectors import Vectors

SPACE = 1


def make_job(job_id: int, text: str = "", attempts: int = 0) -> Job:
    text = text or f"text {job_id}"
    return Job(
        id=job_id,
        chunk=job_id,
        space=SPACE,
        hash=hashlib.sha256(text.encode()).digest(),
        text=text,
        entry=f"entry-{job_id}",
        collection="knowledge",
        attempts=attempts,
    )


@dataclass
class Row:
    job: Job
    not_before: int = 0
    leased_until: int = 0
    buried: bool = False
    error: str = ""


@dataclass
class MemoryJobs(OutboxStorage):
    """The table of jobs and the vectors of one space. `fault` may raise before any operation.

    `after_claim` is called after jobs are claimed, before they are returned.
    """

    rows: dict[int, Row] = field(default_factory=dict)
    vectors: dict[int, Vectors] = field(default_factory=dict)
    fault: Callable[[str], None] | None = None
    after_claim: Callable[[], None] | None = None
    operations: list[str] = field(default_factory=list)
    claimed: list[int] = field(default_factory=list)
    _ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def save(self, *texts: str) -> list[Job]:
        """Commit new chunks with their jobs."""
        jobs = [make_job(next(self._ids), text) for text in texts]
        self.rows |= {job.id: Row(job) for job in jobs}
        return jobs

    def delete(self, job: Job) -> None:
        """Delete the entry with everything that belongs to it."""
        self.rows.pop(job.id, None)
        self.vectors.pop(job.chunk, None)

    def rewrite(self, job: Job, text: str) -> Job:
        """Change the header: the same job now has another text."""
        changed = replace(make_job(job.id, text), attempts=0)
        self.vectors.pop(job.chunk, None)
        self.rows[job.id] = Row(changed)
        return changed

    @property
    def pending(self) -> list[Job]:
        return [row.job for row in self.rows.values() if not row.buried]

    @property
    def buried_jobs(self) -> list[Row]:
        return [row for row in self.rows.values() if row.buried]

    @property
    def leased(self) -> list[int]:
        return [row.job.id for row in self.rows.values() if row.leased_until]

    def has_claimable(self, now: int) -> bool:
        return any(not row.buried and row.not_before <= now for row in self.rows.values())

    async def claim(
        self,
        limit: int,
        *,
        now: int,
        lease_until: int,
        exclude: Collection[int] = (),
        space: int | None = None,
    ) -> list[Job]:
        await self._enter("claim")
        due = [
            row
            for row in self._rows_of(space)
            if not row.buried
            and row.not_before <= now
            and row.leased_until <= now
            and row.job.id not in exclude
        ][:limit]
        for row in due:
            row.leased_until = lease_until
            self.claimed.append(row.job.id)
        if self.after_claim is not None:
            self.after_claim()
        return [row.job for row in due]

    async def release_leases(self, space: int | None = None) -> None:
        await self._enter("release_leases")
        for row in self._rows_of(space):
            row.leased_until = 0

    async def complete(self, jobs: Sequence[Job], vectors: Vectors) -> int:
        assert vectors.shape[0] == len(jobs)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
        await self._enter("complete")
        current = [(job, vector) for job, vector in zip(jobs, vectors, strict=True) if self._is_pending(job)]
        for job, vector in current:
            assert job.chunk not in self.vectors
            self.vectors[job.chunk] = vector
            del self.rows[job.id]
        return len(current)

    async def postpone(self, jobs: Sequence[Job], *, not_before: int, error: str) -> None:
        await self._enter("postpone")
        for job in filter(self._is_pending, jobs):
            row = self.rows[job.id]
            attempts = row.job.attempts + 1
            self.rows[job.id] = Row(replace(row.job, attempts=attempts), not_before, error=error)

    async def bury(self, job: Job, reason: str) -> None:
        await self._enter("bury")
        if self._is_pending(job):
            self.rows[job.id] = Row(job, buried=True, error=reason)

    async def retry_buried(self) -> int:
        buried = self.buried_jobs
        for row in buried:
            self.rows[row.job.id] = Row(row.job)
        return len(buried)

    async def next_due(self, now: int, space: int | None = None) -> int | None:
        await self._enter("next_due")
        times = [max(row.not_before, row.leased_until) for row in self._rows_of(space) if not row.buried]
        return min((at for at in times if at > now), default=None)

    async def depth(self) -> QueueDepth:
        return QueueDepth(len(self.pending), len(self.buried_jobs), None)

    async def buried(self, limit: int = 100) -> list[BuriedRow]:
        return [
            BuriedRow(row.job.id, row.job.entry, row.job.collection, row.job.attempts, row.error)
            for row in self.buried_jobs[:limit]
        ]

    def _is_pending(self, job: Job) -> bool:
        row = self.rows.get(job.id)
        return row is not None and row.job.hash == job.hash and not row.buried

    def _rows_of(self, space: int | None) -> list[Row]:
        return [row for row in self.rows.values() if space in {None, row.job.space}]

    async def _enter(self, operation: str) -> None:
        self.operations.append(operation)
        await asyncio.sleep(0)  # like a real storage, lets other tasks run first
        if self.fault is not None:
            self.fault(operation)


@dataclass
class FailingCalls:
    """A fault that raises `error` for the next `times` calls of one of `operations`."""

    error: DeadlineExceeded | StorageFailed
    operations: tuple[str, ...]
    times: int

    def __call__(self, operation: str) -> None:
        if operation in self.operations and self.times > 0:
            self.times -= 1
            raise self.error
