"""Time for the queue: milliseconds that never go backwards, and alarms."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from agentctx.times import Clock


class Alarm(Protocol):
    """A callback that is still pending."""

    def cancel(self) -> None:
        """Cancel the callback; harmless if it has already fired."""


class Timer(Protocol):
    """A clock with alarms. Tests advance one by hand."""

    def now(self) -> int:
        """Return milliseconds since the epoch; never less than before."""

    def call_at(self, at: int, callback: Callable[[], object]) -> Alarm:
        """Call back at `at`, or soon if that time has passed."""


class LoopTimer:
    """The wall clock, corrected by the monotonic clock, with alarms on the running event loop.

    Jumps forward (a suspended machine, a corrected clock) are followed, so that waits end in time; jumps back
    are not, so that nothing waits for an hour to repeat itself.
    """

    def __init__(self, clock: Clock, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._ahead = clock() - monotonic() * 1000

    def now(self) -> int:
        steady = self._monotonic() * 1000
        self._ahead = max(self._ahead, self._clock() - steady)
        return int(steady + self._ahead)

    def call_at(self, at: int, callback: Callable[[], object]) -> Alarm:
        return asyncio.get_running_loop().call_later(max(0, at - self.now()) / 1000, callback)


@contextmanager
def alarm_at(timer: Timer, at: int | None, callback: Callable[[], object]) -> Iterator[None]:
    """Call back at `at` unless the block ends earlier; None sets no alarm."""
    alarm = None if at is None else timer.call_at(at, callback)
    try:
        yield
    finally:
        if alarm is not None:
            alarm.cancel()


async def sleep(timer: Timer, ms: int, *, until: asyncio.Event | None = None) -> None:
    """Return after `ms` milliseconds of the timer, or as soon as `until` is set."""
    waiting = asyncio.ensure_future((until or asyncio.Event()).wait())
    try:
        with alarm_at(timer, timer.now() + ms, waiting.cancel):
            await asyncio.wait({waiting})
    finally:
        waiting.cancel()
