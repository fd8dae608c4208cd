"""How late the event loop is; every request waits at least that long."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

INTERVAL_S = 1.0
MAX_READINGS: Final = 300
"""Number of readings kept, five minutes' worth."""
STALLED_S: Final = 5.0
STALLED_READINGS: Final = 3


class LoopLag:
    """The latest readings of `watch_loop`, in seconds."""

    def __init__(self) -> None:
        self._readings: deque[float] = deque(maxlen=MAX_READINGS)

    def record(self, seconds: float) -> None:
        self._readings.append(seconds)

    @property
    def readings(self) -> int:
        return len(self._readings)

    @property
    def worst_s(self) -> float:
        """0 before the first reading."""
        return max(self._readings, default=0.0)

    def later_than(self, seconds: float) -> int:
        """Count the readings above this value."""
        return sum(reading > seconds for reading in self._readings)

    @property
    def is_stalled(self) -> bool:
        """Whether each of the last alarms was so late that no client can have been served in time.

        A single long pause of the machine does not count: the loop catches up with the next alarm.
        """
        latest = list(self._readings)[-STALLED_READINGS:]
        return len(latest) == STALLED_READINGS and min(latest) >= STALLED_S


async def watch_loop(
    loop_lagged: Callable[[float], None],
    *,
    interval_s: float = INTERVAL_S,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Set alarms repeatedly, and report by how many seconds each one was missed. Runs until cancelled.

    The loop's own timers are accurate to a millisecond.
    """
    while True:
        due = now() + interval_s
        await sleep(interval_s)
        loop_lagged(max(0.0, now() - due))
