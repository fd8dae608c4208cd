"""Tells the watchdog whether the daemon still does its job.

If it does not, systemd restarts it, so only trouble that a restart can cure counts: a database that does not
answer, a stalled event loop, and an invariant that broke while this daemon ran. Trouble that existed at the
start is left to `doctor`; otherwise the daemon would be restarted forever.
"""

from __future__ import annotations

from typing import Final

from agentctx.embedding.queue.lanes import Lanes
from agentctx.service.self_check import running_models, wrong_models
from agentctx.service.telemetry.loop_lag import LoopLag
from agentctx.storage.base import Storage

CHECKS: Final = 3
"""Consecutive checks that must find trouble before it counts; switching a model takes several steps."""


class HealthVerdict:
    """Decides from consecutive checks whether an invariant is permanently broken. No I/O."""

    def __init__(self) -> None:
        self._was_sound = False
        self._checks = 0
        self._trouble = ""

    def record(self, trouble: str) -> None:
        """Record the trouble that a check found; "" if there is none."""
        self._was_sound = self._was_sound or not trouble
        self._checks = self._checks + 1 if trouble else 0
        self._trouble = trouble

    @property
    def trouble(self) -> str:
        """The trouble that arose after the start and persists; "" if there is none."""
        return self._trouble if self._was_sound and self._checks >= CHECKS else ""


class Health:
    """The daemon's health. `check` waits for the database; `trouble` immediately returns what is wrong."""

    def __init__(self, storage: Storage, lanes: Lanes | None, loop_lag: LoopLag) -> None:
        self._storage = storage
        self._lanes = lanes
        self._loop_lag = loop_lag
        self._verdict = HealthVerdict()

    async def check(self) -> None:
        """Wait for the writer, then run those checks of the invariant and the models that take milliseconds.

        Raises:
            DeadlineExceeded, StorageFailed: the database answered with an error; the verdict stays as it was.
        """
        await self._storage.probe()
        violations = await self._storage.proofs.count_violations()
        found = await self._storage.proofs.vectors_by_space()
        mixed = wrong_models(found, running_models(self._lanes))
        broken = f"the invariant is broken: {violations} chunks or vectors" if violations else ""
        self._verdict.record("; ".join(part for part in (broken, *mixed) if part))

    def trouble(self) -> str:
        """Return why the watchdog must not be notified; "" if it may be."""
        return "the event loop is stalled" if self._loop_lag.is_stalled else self._verdict.trouble
