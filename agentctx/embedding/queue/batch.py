"""Decide what the next provider call contains. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from agentctx.storage.records import Job

Batch: TypeAlias = tuple[Job, ...]


def halves(jobs: Sequence[Job]) -> tuple[Batch, Batch]:
    """Split a refused batch of two or more jobs in half, in order; the first half is never the smaller."""
    middle = (len(jobs) + 1) // 2
    return tuple(jobs[:middle]), tuple(jobs[middle:])


def jobs_of(entries: Collection[str], jobs: Iterable[Job]) -> Batch:
    """Return the jobs that hold a text of these entries."""
    return tuple(job for job in jobs if job.entry in entries)


class Batcher:
    """The batch being collected, and the parts of refused batches, which are sent first.

    No batch waits to be filled: jobs collect while the provider is busy. A failed call halves the batch size
    and a successful one doubles it, up to `size`, so that a provider too slow for a whole batch within the
    timeout still makes progress.
    """

    def __init__(self, *, size: int) -> None:
        self._size = size
        self.limit = size
        """Maximum number of jobs in the next call, 1 to `size`."""
        self._collected: deque[Job] = deque()
        self._parts: deque[Batch] = deque()

    def __len__(self) -> int:
        return len(self._collected) + sum(len(part) for part in self._parts)

    @property
    def is_filled(self) -> bool:
        """Whether the next call needs no more jobs."""
        return bool(self._parts) or len(self._collected) >= self.limit

    def add(self, job: Job) -> None:
        self._collected.append(job)

    def take(self, limit: int) -> Batch:
        """Take up to `limit` jobs of the next batch, in order of arrival."""
        limit = min(limit, self.limit)
        if self._parts:
            part = self._parts.popleft()
            if part[limit:]:
                self._parts.appendleft(part[limit:])
            return part[:limit]
        return tuple(self._collected.popleft() for _ in range(min(limit, len(self._collected))))

    def put_first(self, parts: Sequence[Batch]) -> None:
        """Put these parts first, one call each."""
        self._parts.extendleft(reversed(parts))

    def drop(self, entries: Collection[str]) -> Batch:
        """Remove the jobs of these entries."""
        gone = jobs_of(entries, (*self._collected, *(job for part in self._parts for job in part)))
        if gone:
            self._collected = deque(job for job in self._collected if job not in gone)
            rest = (tuple(job for job in part if job not in gone) for part in self._parts)
            self._parts = deque(part for part in rest if part)
        return gone

    def grow(self) -> None:
        """Double the batch size after a successful call."""
        self.limit = min(self._size, self.limit * 2)

    def shrink(self, count: int) -> None:
        """Shrink the batch size after a call with `count` jobs failed for a reason unrelated to its texts."""
        self.limit = max(1, min(self.limit, count // 2))
