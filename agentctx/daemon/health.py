"""What the watchdog wants to know: is the daemon still doing its job.

A restart is what follows when it does not, so only what a restart can help counts: a database that does not
answer, a loop that is stalled, and an invariant that broke while this daemon ran. What was broken when it
started is for `doctor`, or the daemon would be restarted forever.
"""

from __future__ import annotations

from typing import Final

from agentctx.embedding_queue.lanes import Lanes
from agentctx.service.prover import models_in_force, wrong_models
from agentctx.storage.base import Storage
from agentctx.telemetry.loop_lag import LoopLag

LOOKS: Final = 3
"""In a row that have to see the same trouble: models are switched and renewed in several steps."""


class HealthVerdict:
    """Whether an invariant is permanently broken, by consecutive checks. No I/O."""

    def __init__(self) -> None:
        self._was_sound = False
        self._looks = 0
        self._trouble = ""

    def note(self, trouble: str) -> None:
        """What a look found; empty when all is well."""
        self._was_sound = self._was_sound or not trouble
        self._looks = self._looks + 1 if trouble else 0
        self._trouble = trouble

    @property
    def trouble(self) -> str:
        """What broke since the start and stays so; empty otherwise."""
        return self._trouble if self._was_sound and self._looks >= LOOKS else ""


class Health:
    """`look` asks the database and returns when it has answered; `trouble` says at once what is wrong."""

    def __init__(self, storage: Storage, lanes: Lanes | None, loop_lag: LoopLag) -> None:
        self._storage = storage
        self._lanes = lanes
        self._loop_lag = loop_lag
        self._verdict = HealthVerdict()

    async def look(self) -> None:
        """Ask the writer, then look at the invariant and the models as far as that takes milliseconds.

        Raises:
            DeadlineExceeded, StorageFailed: that is an answer as well; nothing is learned from it.
        """
        await self._storage.turn()
        violations = await self._storage.proofs.count_violations()
        found = await self._storage.proofs.vectors_by_space()
        mixed = wrong_models(found, models_in_force(self._lanes))
        broken = f"the invariant is broken: {violations} chunks or vectors" if violations else ""
        self._verdict.note("; ".join(part for part in (broken, *mixed) if part))

    def trouble(self) -> str:
        """Why the watchdog must not be fed; empty when it may be."""
        return "the event loop is stalled" if self._loop_lag.is_stalled else self._verdict.trouble
