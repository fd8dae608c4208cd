"""Checks in the background what `doctor` checks on request, and packs the tables of vectors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog

from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.service.fingerprints import left_behind, models_in_force, wrong_models
from agentctx.service.parts import Parts, PartsHolder
from agentctx.service.self_retrieval import SelfRetrieval, retrieve_canaries
from agentctx.storage.proofs import SlotCount
from agentctx.telemetry.loop_lag import LoopLag

log = structlog.get_logger("agentctx.prover")

Sleep = Callable[[float], Awaitable[object]]
Found: TypeAlias = tuple[int, int, int, int]

FIRST_PROOF_S: Final = 30.0
"""Delay after the start, when the daemon is busy."""
PROOF_EVERY_S: Final = 45.0
"""Reports a fault within a minute, as long as a check is quick."""
LONGEST_REST_S: Final = 3_600.0
_REST: Final = 100
"""The pause after a proof, as a multiple of its duration: a proof reads the ids of every row."""
PACK_EVERY_S: Final = 60.0
PACK_PAUSE_S: Final = 0.2
"""Pause between two steps of packing, each of which blocks saves for about 20 ms."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a proof at `at`, in milliseconds since the epoch."""

    at: int
    violations: int
    """Violations of the invariant, counted by the census."""
    mismatches: int
    """Spaces whose vectors do not belong to a running model."""
    retrieval: SelfRetrieval

    @property
    def found(self) -> Found:
        """Violations, mismatches, and the numbers of chunks not found by words and by vectors."""
        retrieval = self.retrieval
        return self.violations, self.mismatches, len(retrieval.lost_words), len(retrieval.lost_vectors)


class Prover(PartsHolder):
    """The part of the service that checks itself.

    `latest_proof` and `slot_count` are None until the first check.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.latest_proof: Proof | None = None
        self.slot_count: SlotCount | None = None

    @property
    def loop_lag(self) -> LoopLag:
        """The recent delays of the event loop."""
        return self._parts.recorder.loop_lag

    async def prove(self) -> Proof:
        """Run all checks now.

        Raises:
            DeadlineExceeded, StorageFailed: the database could not be read.
        """
        storage = self._parts.storage
        census = await storage.upkeep.census()
        found = await storage.proofs.vectors_by_space()
        mismatches = [*left_behind(found), *wrong_models(found, models_in_force(self._parts.lanes))]
        proof = Proof(
            at=self._parts.clock(),
            violations=census.violations,
            mismatches=len(mismatches),
            retrieval=await retrieve_canaries(storage),
        )
        self.latest_proof = proof
        return proof

    async def keep_proving(
        self, sleep: Sleep = asyncio.sleep, elapsed: Callable[[], float] = time.monotonic
    ) -> None:
        """Run the checks soon after the start and then repeatedly. Changed problems are logged.

        Of the daemons that share a database, one does this. Runs until cancelled.
        """
        await sleep(FIRST_PROOF_S)
        while True:
            before, began = self.latest_proof, elapsed()
            try:
                if await self._parts.storage.upkeep.leads("prove"):
                    proof = await self.prove()
                    if before is None or proof.found != before.found:
                        _tell(proof)
            except (DeadlineExceeded, StorageFailed) as error:
                log.warning("proof_not_made", code=error.code, reason=error.message)
            await sleep(rest_s(elapsed() - began))

    async def keep_packed(self, sleep: Sleep = asyncio.sleep) -> None:
        """Pack the tables of vectors whenever too many slots are dead. Runs until cancelled."""
        slots = self._parts.storage.slots
        while True:
            try:
                while await slots.step():
                    await sleep(PACK_PAUSE_S)
                self.slot_count = await slots.count()
            except (DeadlineExceeded, StorageFailed) as error:
                log.warning("packing_failed", code=error.code, reason=error.message)
            await sleep(PACK_EVERY_S)


def rest_s(took_s: float) -> float:
    """Return how long to pause after a proof that took `took_s`."""
    return min(max(PROOF_EVERY_S, _REST * took_s), LONGEST_REST_S)


def _tell(proof: Proof) -> None:
    violations, mismatches, lost_by_words, lost_by_vectors = proof.found
    if any(proof.found):
        log.error(
            "proof_failed",
            violations=violations,
            mismatches=mismatches,
            lost_by_words=lost_by_words,
            lost_by_vectors=lost_by_vectors,
            hint="Run `agentctx doctor`, then `agentctx doctor --fix`.",
        )
