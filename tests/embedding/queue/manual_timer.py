"""A clock that only tests advance. Nothing here waits for real time."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agentctx.embedding.queue.timing import Alarm

T = TypeVar("T")

START = 1_750_000_000_000
TEN_DAYS = 864_000_000
MAX_STEPS = 100_000


@dataclass(order=True)
class ManualAlarm:
    at: int
    order: int
    callback: Callable[[], object] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        self.cancelled = True


class ManualTimer:
    def __init__(self, start: int = START) -> None:
        self._now = start
        self._alarms: list[ManualAlarm] = []
        self._order = itertools.count()

    @property
    def alarms(self) -> int:
        """The number of alarms that have not fired."""
        return sum(not alarm.cancelled for alarm in self._alarms)

    def now(self) -> int:
        return self._now

    def call_at(self, at: int, callback: Callable[[], object]) -> Alarm:
        if at <= self._now:
            return asyncio.get_running_loop().call_soon(callback)
        alarm = ManualAlarm(at, next(self._order), callback)
        heapq.heappush(self._alarms, alarm)
        return alarm

    async def settle(self) -> None:
        """Run everything that can run without time passing."""
        loop: Any = asyncio.get_running_loop()
        for _ in range(MAX_STEPS):
            await asyncio.sleep(0)
            if not loop._ready:
                return
        raise AssertionError("callbacks run forever without time passing")

    async def advance(self, ms: int) -> None:
        target = self._now + ms
        await self.settle()
        while (at := self._next_alarm()) is not None and at <= target:
            await self._fire()
        self._now = target
        await self.settle()

    async def until(self, condition: Callable[[], bool], limit_ms: int = TEN_DAYS) -> None:
        """Advance from alarm to alarm until the condition holds; fail if it never can."""
        end = self._now + limit_ms
        await self.settle()
        while not condition():
            at = self._next_alarm()
            assert at is not None, "no alarm is left"
            assert at <= end, "the time limit is exceeded"
            await self._fire()

    async def run(self, awaitable: Awaitable[T], limit_ms: int = TEN_DAYS) -> T:
        """Return the awaitable's result, advancing the time only as far as needed."""
        task = asyncio.ensure_future(awaitable)
        try:
            await self.until(task.done, limit_ms)
        finally:
            task.cancel()
        return await task

    def _next_alarm(self) -> int | None:
        while self._alarms and self._alarms[0].cancelled:
            heapq.heappop(self._alarms)
        return self._alarms[0].at if self._alarms else None

    async def _fire(self) -> None:
        alarm = heapq.heappop(self._alarms)
        self._now = max(self._now, alarm.at)
        alarm.callback()
        await self.settle()
