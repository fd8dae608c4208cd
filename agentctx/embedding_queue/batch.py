"""Decide what the next provider call contains and when it is due. No I/O."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from agentctx.storage.records import Job

Batch: TypeAlias = tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Queued:
    """A job in memory, and when it arrived (milliseconds)."""

    job: Job
    since: int


def halves(jobs: Sequence[Job]) -> tuple[Batch, Batch]:
    """Split a refused batch of two or more jobs in half, in order; the first half is never the smaller."""
    middle = (len(jobs) + 1) // 2
    return tuple(jobs[:middle]), tuple(jobs[middle:])


def jobs_of(entries: Collection[str], jobs: Iterable[Job]) -> Batch:
    """Return the jobs that hold a text of these entries."""
    return tuple(job for job in jobs if job.entry in entries)


class Batcher:
    """The batch being collected, and the parts of refused batches, which are sent first.

    A batch is due when it is full, or `wait_ms` after its first job arrived. A failed call halves the batch
    size and a successful one doubles it, up to `size`, so that a provider too slow for a whole batch within
    the timeout still makes progress.
    """

    def __init__(self, *, size: int, wait_ms: int) -> None:
        self._size = size
        self._wait_ms = wait_ms
        self._limit = size
        self._collected: deque[Queued] = deque()
        self._parts: deque[Batch] = deque()

    @property
    def limit(self) -> int:
        """Maximum number of jobs in the next call, 1 to `size`."""
        return self._limit

    def __len__(self) -> int:
        return len(self._collected) + sum(len(part) for part in self._parts)

    @property
    def is_filled(self) -> bool:
        """Whether the next call needs no more jobs."""
        return bool(self._parts) or len(self._collected) >= self._limit

    def add(self, queued: Queued) -> None:
        self._collected.append(queued)

    def due_at(self) -> int | None:
        """Return when to send the next batch: 0 for at once, None if there is nothing to send."""
        if self.is_filled:
            return 0
        return self._collected[0].since + self._wait_ms if self._collected else None

    def take(self, most: int) -> Batch:
        """Take up to `most` jobs of the next batch, in order of arrival."""
        most = min(most, self._limit)
        if self._parts:
            part = self._parts.popleft()
            if part[most:]:
                self._parts.appendleft(part[most:])
            return part[:most]
        return tuple(self._collected.popleft().job for _ in range(min(most, len(self._collected))))

    def put_first(self, parts: Sequence[Batch]) -> None:
        """Put these parts first, one call each."""
        self._parts.extendleft(reversed(parts))

    def drop(self, entries: Collection[str]) -> Batch:
        """Remove the jobs of these entries."""
        collected = tuple(queued.job for queued in self._collected)
        gone = jobs_of(entries, (*collected, *(job for part in self._parts for job in part)))
        if gone:
            self._collected = deque(each for each in self._collected if each.job not in gone)
            rest = (tuple(job for job in part if job not in gone) for part in self._parts)
            self._parts = deque(part for part in rest if part)
        return gone

    def grow(self) -> None:
        """Double the batch size after a successful call."""
        self._limit = min(self._size, self._limit * 2)

    def shrink(self, count: int) -> None:
        """Shrink the batch size after a call with `count` jobs failed for a reason unrelated to its texts."""
        self._limit = max(1, min(self._limit, count // 2))


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
