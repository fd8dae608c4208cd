"""The background work after a revocation or a release: the indexes follow the quarantine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.storage.trust_storage import TrustStorage

log = structlog.get_logger("agentctx.trust")

ENTRIES_PER_STEP: Final = 50
"""Number of entries removed from or returned to the indexes per transaction, which blocks saves."""
LINGER_S: Final = 0.2
"""Delay that lets the caller's reply be sent first."""


class ReleaseWorker:
    """Removes quarantined entries from the indexes and returns released ones to them, in the background."""

    def __init__(
        self,
        trust: TrustStorage,
        *,
        embed: bool,
        jobs_are_due: Callable[[], None],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._trust = trust
        self._sleep = sleep
        self._embed = embed
        self._jobs_are_due = jobs_are_due
        self._notified = asyncio.Event()

    def notify(self) -> None:
        """Signal that there may be work."""
        self._notified.set()

    async def run(self) -> None:
        """Do pending work until cancelled, starting with work left over from an earlier run."""
        self.notify()
        while True:
            await self._notified.wait()
            self._notified.clear()
            await self._sleep(LINGER_S)
            try:
                await self.settle()
            except (DeadlineExceeded, StorageFailed) as error:
                # The rows record the remaining work; the next request or start resumes it.
                log.warning("quarantine_not_settled", error=error.code, reason=error.message)

    async def settle(self) -> None:
        """Do all pending work. Raises `DeadlineExceeded` or `StorageFailed`."""
        began = time.monotonic()
        while (settled := await self._trust.settle(embed=self._embed, limit=ENTRIES_PER_STEP)).rows:
            if settled.jobs:
                self._jobs_are_due()
            # Answers already exclude these entries, so give way to saves and searches.
            await self._sleep(time.monotonic() - began)
            began = time.monotonic()
