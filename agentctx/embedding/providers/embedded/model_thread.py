"""One worker thread that runs calls one after the other, stops when no caller waits, and measures its CPU."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeAlias, TypeVar

T = TypeVar("T")
StopCheck: TypeAlias = Callable[[], bool]
"""True once the result is no longer wanted."""

BACKGROUND_NICENESS = 5


class ModelThread:
    """A single worker thread, started by the first call.

    `background` lowers its priority on a busy machine (Linux). `clock` returns the CPU seconds that
    `cpu_seconds` sums up; the default counts this thread alone.
    """

    def __init__(
        self, name: str, *, background: bool = False, clock: Callable[[], float] = time.thread_time
    ) -> None:
        self.cpu_seconds = 0.0
        self._clock = clock
        self._closing = threading.Event()
        self._executor = ThreadPoolExecutor(
            1, thread_name_prefix=name, initializer=_step_back if background else None
        )

    async def run(self, work: Callable[[StopCheck], T]) -> T:
        """Run `work` in the thread; return its result or raise its error.

        `work` is asked to stop when the caller is cancelled or the thread closes.
        """
        abandoned = threading.Event()

        def stopped() -> bool:
            return abandoned.is_set() or self._closing.is_set()

        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._executor, self._measure, work, stopped)
        finally:
            abandoned.set()

    async def aclose(self) -> None:
        """Tell the running work to stop, and wait until the thread has ended."""
        self._closing.set()
        await asyncio.to_thread(self._executor.shutdown)

    def _measure(self, work: Callable[[StopCheck], T], stopped: StopCheck) -> T:
        start = self._clock()
        try:
            return work(stopped)
        finally:
            self.cpu_seconds += self._clock() - start


def _step_back() -> None:
    """Lower this thread's priority. Only Linux has priorities per thread rather than per process."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        niceness = os.getpriority(os.PRIO_PROCESS, thread) + BACKGROUND_NICENESS
        # A sandbox may forbid the call; batches then simply compete on equal terms.
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, thread, min(niceness, 19))
