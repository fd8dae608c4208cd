"""Proving in the background what `doctor` proves when it is asked, and packing the tables of vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import structlog

from agentctx.daemon.parts import Parts, PartsHolder
from agentctx.doctor.fingerprints import InForce, left_behind, wrong_models
from agentctx.doctor.self_retrieval import SelfRetrieval, retrieve_canaries
from agentctx.embedding_queue.lanes import Lanes
from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.telemetry.loop_lag import LoopLag
from agentctx.vector_stores.vec0_slots import SlotCount

log = structlog.get_logger("agentctx.prover")

Sleep = Callable[[float], Awaitable[object]]

FIRST_PROOF_S: Final = 60.0
"""After a start there is enough to do."""
PROOF_EVERY_S: Final = 3_600.0
PACK_EVERY_S: Final = 60.0
PACK_PAUSE_S: Final = 0.2
"""Between two steps of packing, which hold up saves for about 20 ms each."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proved at a moment, milliseconds since the epoch; all well when there is no trouble."""

    at: int
    violations: int
    """Of the invariant, by the census."""
    mismatches: int
    """Spaces whose vectors are not of a model that is in force."""
    retrieval: SelfRetrieval

    @property
    def troubles(self) -> int:
        return self.violations + self.mismatches + self.retrieval.lost


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
        census = await storage.census()
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

    async def keep_proving(self, sleep: Sleep = asyncio.sleep) -> None:
        """Prove it soon after the start and every hour. Ends when it is cancelled."""
        await sleep(FIRST_PROOF_S)
        while True:
            try:
                _tell(await self.prove())
            except (DeadlineExceeded, StorageFailed) as error:
                log.warning("proof_not_made", code=error.code, reason=error.message)
            await sleep(PROOF_EVERY_S)

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


def models_in_force(lanes: Lanes | None) -> InForce:
    """The models that run, by the space that each fills; none where nothing is embedded."""
    return {} if lanes is None else {lane.space: lane.fingerprint for lane in lanes}


def _tell(proof: Proof) -> None:
    if proof.troubles:
        log.error(
            "proof_failed",
            violations=proof.violations,
            mismatches=proof.mismatches,
            lost_by_words=len(proof.retrieval.lost_words),
            lost_by_vectors=len(proof.retrieval.lost_vectors),
            hint="Run `agentctx doctor`, then `agentctx doctor --fix`.",
        )
