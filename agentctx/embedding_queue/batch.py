"""Decides what the next provider call holds and when it is due. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from agentctx.storage.records import Job

Batch: TypeAlias = tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Queued:
    """A job in memory and when it came, in milliseconds."""

    job: Job
    since: int


def halves(jobs: Sequence[Job]) -> tuple[Batch, Batch]:
    """The two halves of a refused batch of two jobs or more, in order; the first is never the smaller."""
    middle = (len(jobs) + 1) // 2
    return tuple(jobs[:middle]), tuple(jobs[middle:])


def jobs_of(entries: Collection[str], jobs: Iterable[Job]) -> Batch:
    """Those of the jobs that hold a text of these entries."""
    return tuple(job for job in jobs if job.entry in entries)


class Batcher:
    """The batch being collected, and the parts of refused batches, which go first.

    A batch is due when it is full, or `wait_ms` after its first job came. Failed calls halve what counts as
    full and good ones double it up to `size` again: a provider that is too slow for a whole batch within the
    timeout still gets on.
    """

    def __init__(self, *, size: int, wait_ms: int) -> None:
        self._size = size
        self._wait_ms = wait_ms
        self._limit = size
        self._collected: deque[Queued] = deque()
        self._parts: deque[Batch] = deque()

    @property
    def limit(self) -> int:
        """How many jobs the next call may hold, 1 to `size`."""
        return self._limit

    def __len__(self) -> int:
        return len(self._collected) + sum(len(part) for part in self._parts)

    @property
    def is_filled(self) -> bool:
        """Whether the next call needs no further jobs."""
        return bool(self._parts) or len(self._collected) >= self._limit

    def add(self, queued: Queued) -> None:
        self._collected.append(queued)

    def due_at(self) -> int | None:
        """When the next batch is to be sent: 0 for at once, None when there is nothing to send."""
        if self.is_filled:
            return 0
        return self._collected[0].since + self._wait_ms if self._collected else None

    def take(self, most: int) -> Batch:
        """The next batch, at most `most` jobs of it; jobs leave in the order they came."""
        most = min(most, self._limit)
        if self._parts:
            part = self._parts.popleft()
            if part[most:]:
                self._parts.appendleft(part[most:])
            return part[:most]
        return tuple(self._collected.popleft().job for _ in range(min(most, len(self._collected))))

    def put_first(self, parts: Sequence[Batch]) -> None:
        """Send these next, one call each."""
        self._parts.extendleft(reversed(parts))

    def drop(self, entries: Collection[str]) -> Batch:
        """Take out the jobs of these entries."""
        collected = tuple(queued.job for queued in self._collected)
        gone = jobs_of(entries, (*collected, *(job for part in self._parts for job in part)))
        if gone:
            self._collected = deque(each for each in self._collected if each.job not in gone)
            rest = (tuple(job for job in part if job not in gone) for part in self._parts)
            self._parts = deque(part for part in rest if part)
        return gone

    def grow(self) -> None:
        """A call went well."""
        self._limit = min(self._size, self._limit * 2)

    def shrink(self, count: int) -> None:
        """A call with `count` jobs failed for a reason that is not in its texts."""
        self._limit = max(1, min(self._limit, count // 2))
