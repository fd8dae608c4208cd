"""Wait for jobs to end, and remember how recent jobs ended."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable
from enum import StrEnum

from agentctx.embedding.queue.timing import Timer, alarm_at

REMEMBERED = 8_192
"""Number of endings kept for late callers; one request can make about 2,400 jobs."""


class Outcome(StrEnum):
    """How a job ended."""

    DONE = "done"
    """Its vector is stored, or its text has since been replaced or removed."""
    BURIED = "buried"


class _Waiter:
    def __init__(self, jobs: set[int]) -> None:
        self.open = jobs
        self.ended: dict[int, Outcome] = {}
        self.wake = asyncio.Event()


class JobOutcomes:
    """Reports to waiters how jobs ended. Use it from one event loop."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._ended: OrderedDict[int, Outcome] = OrderedDict()
        self._waiters: defaultdict[int, set[_Waiter]] = defaultdict(set)
        self._is_closed = False

    def record(self, jobs: Iterable[int], outcome: Outcome) -> None:
        for job in jobs:
            self._ended[job] = outcome
            self._ended.move_to_end(job)
            for waiter in self._waiters.pop(job, ()):
                waiter.open.discard(job)
                waiter.ended[job] = outcome
                if not waiter.open:
                    waiter.wake.set()
        while len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)

    def reopen(self, jobs: Iterable[int]) -> None:
        """Mark jobs as pending again, and forget their earlier endings."""
        for job in jobs:
            self._ended.pop(job, None)

    async def wait(self, jobs: Collection[int], timeout_s: float | None) -> dict[int, Outcome]:
        """Return how the jobs ended, once all have or the time is up; jobs still open are missing."""
        waiter = _Waiter({job for job in jobs if job not in self._ended})
        waiter.ended = {job: self._ended[job] for job in jobs if job in self._ended}
        if waiter.open and not self._is_closed:
            await self._await(waiter, timeout_s)
        return waiter.ended

    def close(self) -> None:
        """Wake all waiters with the endings so far: no more jobs will end."""
        self._is_closed = True
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.wake.set()

    async def _await(self, waiter: _Waiter, timeout_s: float | None) -> None:
        for job in waiter.open:
            self._waiters[job].add(waiter)
        at = None if timeout_s is None else self._timer.now() + round(timeout_s * 1000)
        try:
            with alarm_at(self._timer, at, waiter.wake.set):
                await waiter.wake.wait()
        finally:
            for job in waiter.open:
                waiters = self._waiters[job]
                waiters.discard(waiter)
                if not waiters:
                    del self._waiters[job]
