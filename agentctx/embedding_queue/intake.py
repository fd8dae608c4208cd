"""Decides which jobs are kept in memory and when to ask the table for more. No I/O.

Jobs leave in the order they were made: while older ones wait in the table, newer ones wait there too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence

from agentctx.embedding_queue.batch import Batch, Queued, jobs_of
from agentctx.storage.records import Job


class Intake:
    """The bounded queue in memory, and what is known of the jobs beyond it."""

    def __init__(self, *, capacity: int, low_water: int) -> None:
        self._queue: asyncio.Queue[Queued] = asyncio.Queue(capacity)
        self._low_water = low_water
        self._known: dict[int, Job] = {}
        self._is_claiming = False
        self._erased: set[str] = set()
        self.has_backlog = True
        """Whether jobs that are due may be in the table and not here. True until the table was asked."""
        self.due: int | None = None
        """When a postponed job in the table is due next (milliseconds)."""

    def __len__(self) -> int:
        return self._queue.qsize()

    @property
    def known(self) -> tuple[int, ...]:
        """Ids of all jobs in memory, those at the provider included."""
        return tuple(self._known)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is in memory and nothing due can be in the table."""
        return not (self._known or self.has_backlog or self._is_claiming)

    def offer(self, jobs: Sequence[Job], now: int) -> None:
        """Take what fits; the rest is known to wait in the table."""
        for job in jobs:
            if job.id in self._known:
                self._known[job.id] = job  # a newer text is noticed when the older one is released
            elif self.has_backlog or self._is_claiming or self._queue.full():
                self.has_backlog = True
            else:
                self._put(job, now)

    def room(self, now: int) -> int:
        """How many jobs to claim from the table now; 0 if it need not be read."""
        if self.due is not None and now >= self.due:
            self.has_backlog, self.due = True, None
        if not self.has_backlog or len(self) > self._low_water:
            return 0
        return self._queue.maxsize - len(self)

    def begin_claim(self) -> None:
        """The table is asked: from here on, what is not taken in may be missing from the answer."""
        self._is_claiming, self.has_backlog = True, False

    def end_claim(self, jobs: Sequence[Job], *, asked: int, now: int) -> None:
        """Take the answer; one as long as was asked for means that there may be more."""
        self._is_claiming = False
        self.has_backlog = self.has_backlog or len(jobs) >= asked
        for job in jobs:
            if job.id not in self._known and job.entry not in self._erased:
                self._put(job, now)
        self._erased.clear()

    def get(self) -> Queued | None:
        """The oldest job; it stays known until it is released."""
        return None if self._queue.empty() else self._queue.get_nowait()

    def release(self, jobs: Iterable[Job]) -> None:
        """These are embedded, buried or postponed: the table alone knows of them."""
        for job in jobs:
            if self._known.pop(job.id).hash != job.hash:
                self.has_backlog = True

    def drop(self, entries: Collection[str]) -> Batch:
        """Take the jobs of these erased entries out of the queue; they stay known until they are released."""
        if self._is_claiming:
            self._erased.update(entries)
        if not jobs_of(entries, self._known.values()):
            return ()
        # An erasure whose caller is gone may still fail: then they are in the table, which must be read.
        self.has_backlog = True
        queued = [self._queue.get_nowait() for _ in range(len(self))]
        for each in queued:
            if each.job.entry not in entries:
                self._queue.put_nowait(each)
        return jobs_of(entries, (each.job for each in queued))

    def expect(self, due: int) -> None:
        """A job in the table is due at `due`."""
        self.due = due if self.due is None else min(self.due, due)

    def _put(self, job: Job, now: int) -> None:
        self._known[job.id] = job
        self._queue.put_nowait(Queued(job, now))
