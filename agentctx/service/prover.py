"""Proving in the background what `doctor` proves when it is asked, and packing the tables of vectors."""

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
"""After a start there is enough to do."""
PROOF_EVERY_S: Final = 45.0
"""Reports a fault within a minute, while a proof is quick."""
LONGEST_REST_S: Final = 3_600.0
_REST: Final = 100
"""After a proof comes a rest so many times as long: it reads every row's ids."""
PACK_EVERY_S: Final = 60.0
PACK_PAUSE_S: Final = 0.2
"""Between two steps of packing, which hold up saves for about 20 ms each."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proved at a moment, milliseconds since the epoch; all is well without trouble."""

    at: int
    violations: int
    """Of the invariant, by the census."""
    mismatches: int
    """Spaces whose vectors are not of a model that is in force."""
    retrieval: SelfRetrieval

    @property
    def found(self) -> Found:
        """Violations, mismatches and the stored chunks that words and vectors did not find."""
        retrieval = self.retrieval
        return self.violations, self.mismatches, len(retrieval.lost_words), len(retrieval.lost_vectors)


class Prover(PartsHolder):
    """The part of the service that looks after itself.

    `latest_proof` and `slot_count` are None until it looked once.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.latest_proof: Proof | None = None
        self.slot_count: SlotCount | None = None

    @property
    def loop_lag(self) -> LoopLag:
        """How late the event loop was lately."""
        return self._parts.recorder.loop_lag

    async def prove(self) -> Proof:
        """Prove it now.

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
        """Prove it soon after the start and then again and again. What is wrong is logged when it changes.

        Of daemons that share a database, one proves it.

        Ends when it is cancelled.
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
        """Pack the tables of vectors whenever too many of their slots are dead. Ends when it is cancelled."""
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
    """How long to wait after a proof that took so long."""
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
