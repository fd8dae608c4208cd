"""Decide which jobs to keep in memory and when to claim more from the table. No I/O.

Jobs leave in the order they were made: while older ones wait in the table, newer ones wait there too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence

from agentctx.embedding.queue.batch import Batch, jobs_of
from agentctx.storage.records import Job


class JobBuffer:
    """The bounded queue in memory, and what is known about the jobs beyond it."""

    def __init__(self, *, capacity: int, low_water: int) -> None:
        self._queue: asyncio.Queue[Job] = asyncio.Queue(capacity)
        self._low_water = low_water
        self._known: dict[int, Job] = {}
        self._is_claiming = False
        self._erased: set[str] = set()
        self.has_backlog = True
        """Whether the table may hold due jobs that are not in memory. True until the table has been read."""
        self.due: int | None = None
        """When the next postponed job in the table is due (milliseconds)."""

    def __len__(self) -> int:
        return self._queue.qsize()

    @property
    def known(self) -> tuple[int, ...]:
        """Ids of all jobs in memory, including those at the provider."""
        return tuple(self._known)

    @property
    def is_empty(self) -> bool:
        """Whether memory is empty and the table cannot hold a due job."""
        return not (self._known or self.has_backlog or self._is_claiming)

    def offer(self, jobs: Sequence[Job]) -> None:
        """Take the jobs that fit; the rest stays in the table as backlog."""
        for job in jobs:
            if job.id in self._known:
                self._known[job.id] = job  # a newer text is noticed when the older one is released
            elif self.has_backlog or self._is_claiming or self._queue.full():
                self.has_backlog = True
            else:
                self._put(job)

    def room(self, now: int) -> int:
        """Return how many jobs to claim from the table now; 0 if it need not be read."""
        if self.due is not None and now >= self.due:
            self.has_backlog, self.due = True, None
        if not self.has_backlog or len(self) > self._low_water:
            return 0
        return self._queue.maxsize - len(self)

    def begin_claim(self) -> None:
        """Begin a claim: from here on, jobs that are not taken in may be missing from its result."""
        self._is_claiming, self.has_backlog = True, False

    def end_claim(self, jobs: Sequence[Job], *, asked: int) -> None:
        """Take the claimed jobs; as many as were asked for means that there may be more."""
        self._is_claiming = False
        self.has_backlog = self.has_backlog or len(jobs) >= asked
        for job in jobs:
            if job.id not in self._known and job.entry not in self._erased:
                self._put(job)
        self._erased.clear()

    def get(self) -> Job | None:
        """Return the oldest job; it stays known until it is released."""
        return None if self._queue.empty() else self._queue.get_nowait()

    def release(self, jobs: Iterable[Job]) -> None:
        """Release jobs that are embedded, buried or postponed; only the table knows them from now on."""
        for job in jobs:
            if self._known.pop(job.id).hash != job.hash:
                self.has_backlog = True

    def drop(self, entries: Collection[str]) -> Batch:
        """Remove the jobs of erased entries from the queue; they stay known until they are released."""
        if self._is_claiming:
            self._erased.update(entries)
        if not jobs_of(entries, self._known.values()):
            return ()
        # If the caller is gone, the erasure may still fail, leaving the jobs in the table: read it.
        self.has_backlog = True
        queued = [self._queue.get_nowait() for _ in range(len(self))]
        for job in queued:
            if job.entry not in entries:
                self._queue.put_nowait(job)
        return jobs_of(entries, queued)

    def expect(self, due: int) -> None:
        """Note that a job in the table is due at `due`."""
        self.due = due if self.due is None else min(self.due, due)

    def _put(self, job: Job) -> None:
        self._known[job.id] = job
        self._queue.put_nowait(job)
