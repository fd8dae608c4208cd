"""Runs the checks of `doctor` in the background."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog

from agentctx.embedding.queue.lanes import Lanes
from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.storage.base import Storage
from agentctx.storage.proofs import Canary, SpaceVectors
from agentctx.storage.records import SpaceState
from agentctx.storage.search import Filter, NearestChunk
from agentctx.wire.wording import counted

log = structlog.get_logger("agentctx.prover")

Sleep = Callable[[float], Awaitable[object]]
ProofCounts: TypeAlias = tuple[int, int, int, int]

FIRST_PROOF_S: Final = 30.0
"""Delay after startup, when the daemon is busy."""
PROOF_EVERY_S: Final = 45.0
"""Short enough to report a fault within a minute if the proof itself is quick."""
LONGEST_REST_S: Final = 3_600.0
_REST_FACTOR: Final = 1_000
"""The pause after a proof, as a multiple of its duration: it reads the ids of every row."""
SAMPLE: Final = 20
MAX_HITS: Final = 50
NEAREST: Final = 10
SAME: Final = 1e-3
"""Largest distance of a vector from itself; texts closer than this are indistinguishable."""
RunningModels: TypeAlias = Mapping[int, Mapping[str, str | int]]
"""The fingerprint of each running model, by the space it fills."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a proof made at `at`, in milliseconds since the epoch."""

    at: int
    violations: int
    """Violations of the invariant, counted by the census."""
    mismatches: int
    """Number of spaces that do not match a running model."""
    retrieval: SelfRetrieval

    @property
    def counts(self) -> ProofCounts:
        """Counts: violations, mismatches, chunks not found by keyword and chunks not found by vector."""
        retrieval = self.retrieval
        return self.violations, self.mismatches, len(retrieval.lost_words), len(retrieval.lost_vectors)


class SelfCheck:
    """Checks the daemon itself. `latest_proof` is None until the first check."""

    def __init__(self, storage: Storage, lanes: Lanes | None) -> None:
        self._storage = storage
        self._lanes = lanes
        self.latest_proof: Proof | None = None

    async def prove(self) -> Proof:
        """Run all checks now.

        Raises:
            DeadlineExceeded, StorageFailed: the database could not be read.
        """
        storage = self._storage
        census = await storage.upkeep.census()
        spaces = await storage.proofs.vectors_by_space()
        mismatches = [*stale_spaces(spaces), *wrong_models(spaces, running_models(self._lanes))]
        proof = Proof(
            at=self._storage.clock(),
            violations=census.violations,
            mismatches=len(mismatches),
            retrieval=await retrieve_canaries(storage),
        )
        self.latest_proof = proof
        return proof

    async def keep_proving(
        self, sleep: Sleep = asyncio.sleep, elapsed: Callable[[], float] = time.monotonic
    ) -> None:
        """Run the checks soon after startup and then periodically, until cancelled. Log changed results."""
        await sleep(FIRST_PROOF_S)
        while True:
            before, began = self.latest_proof, elapsed()
            try:
                proof = await self.prove()
                if before is None or proof.counts != before.counts:
                    _log_proof(proof)
            except (DeadlineExceeded, StorageFailed) as error:
                log.warning("proof_not_made", code=error.code, reason=error.message)
            await sleep(rest_s(elapsed() - began))


def rest_s(took_s: float) -> float:
    """Return how long to pause after a proof that took `took_s`."""
    return min(max(PROOF_EVERY_S, _REST_FACTOR * took_s), LONGEST_REST_S)


def _log_proof(proof: Proof) -> None:
    violations, mismatches, lost_by_words, lost_by_vectors = proof.counts
    if any(proof.counts):
        log.error(
            "proof_failed",
            violations=violations,
            mismatches=mismatches,
            lost_by_words=lost_by_words,
            lost_by_vectors=lost_by_vectors,
            hint="Run `agentctx doctor`, then `agentctx doctor --fix`.",
        )


@dataclass(frozen=True, slots=True)
class SelfRetrieval:
    """How many chunks were searched for by keyword and by vector, and the entries that were not found."""

    words: int = 0
    vectors: int = 0
    lost_words: tuple[str, ...] = ()
    lost_vectors: tuple[str, ...] = ()

    @property
    def lost(self) -> int:
        return len(self.lost_words) + len(self.lost_vectors)


async def retrieve_canaries(storage: Storage, sample: int = SAMPLE) -> SelfRetrieval:
    """Search for a sample of live chunks, each by its rarest word and by its vectors.

    Chunks that were changed or forgotten in the meantime count as found.

    Raises:
        DeadlineExceeded, StorageFailed.
    """
    canaries = await storage.proofs.canaries(sample, max_chunks=MAX_HITS)
    lost_words = [each for each in canaries if each.word and not await _found_by_word(storage, each)]
    lost_vectors = [each for each in canaries if not await _found_by_vectors(storage, each)]
    there: set[int] = set()
    for namespace in {each.namespace for each in (*lost_words, *lost_vectors)}:
        lost = [each.chunk for each in (*lost_words, *lost_vectors) if each.namespace == namespace]
        there |= set(await storage.search.resolve(lost, Filter(namespace=namespace, with_superseded=True)))
    return SelfRetrieval(
        words=sum(bool(each.word) for each in canaries),
        vectors=sum(bool(each.vectors) for each in canaries),
        lost_words=tuple(each.entry for each in lost_words if each.chunk in there),
        lost_vectors=tuple(each.entry for each in lost_vectors if each.chunk in there),
    )


async def _found_by_word(storage: Storage, canary: Canary) -> bool:
    found = await storage.search.by_words(
        canary.word, Filter(namespace=canary.namespace, with_superseded=True), MAX_HITS
    )
    return canary.chunk in {hit.chunk for hit in found.hits}


async def _found_by_vectors(storage: Storage, canary: Canary) -> bool:
    in_namespace = Filter(namespace=canary.namespace, with_superseded=True)
    for space, vector in canary.vectors.items():
        if not is_found(canary.chunk, await storage.search.by_vector(space, vector, in_namespace, NEAREST)):
            return False
    return True


def is_found(chunk: int, nearest: Sequence[NearestChunk]) -> bool:
    """Return whether a chunk is near its own vector, or only indistinguishable chunks are found."""
    if any(hit.chunk == chunk for hit in nearest):
        return next(hit.distance for hit in nearest if hit.chunk == chunk) < SAME
    return len(nearest) == NEAREST and nearest[-1].distance < SAME


def running_models(lanes: Lanes | None) -> RunningModels:
    """Return the fingerprint of each running model, by its space; empty if nothing is embedded."""
    return {} if lanes is None else {lane.space: lane.fingerprint for lane in lanes}


def stale_spaces(spaces: Sequence[SpaceVectors]) -> list[str]:
    """Describe the vectors that should have been deleted with their space."""
    return [
        f"space {each.space} {'does not exist' if each.state is None else 'is retired'}, "
        f"but has {counted(each.vectors, 'vector')}"
        for each in spaces
        if each.vectors and each.state in {None, SpaceState.RETIRED}
    ]


def wrong_models(spaces: Sequence[SpaceVectors], running: RunningModels) -> list[str]:
    """Describe the spaces whose jobs or fingerprints do not match the running models."""
    known = {each.space: each for each in spaces}
    enabled = {each.space for each in spaces if each.enabled}
    unfilled = sorted(enabled - set(running))
    wrong = [f"space {space} gets jobs, but no model fills it" for space in unfilled]
    for space, fingerprint in sorted(running.items()):
        if space not in enabled:
            wrong.append(f"space {space} is filled by a model, but gets no jobs")
        elif dict(known[space].fingerprint) != dict(fingerprint):
            wrong.append(f"space {space} has the fingerprint of another model, not the one that fills it")
    return wrong
