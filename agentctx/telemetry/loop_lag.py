"""How late the event loop is: every request waits at least that long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

INTERVAL_S = 1.0


async def watch_loop(
    lagged: Callable[[float], None],
    *,
    interval_s: float = INTERVAL_S,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Set an alarm again and again, and tell by how many seconds each was missed. Runs until cancelled.

    A millisecond is the accuracy of the loop's own timers.
    """
    while True:
        due = now() + interval_s
        await sleep(interval_s)
        lagged(max(0.0, now() - due))
