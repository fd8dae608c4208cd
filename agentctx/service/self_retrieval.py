"""Checks whether stored chunks find themselves: searches a sample by their own vectors and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agentctx.storage.base import Storage
from agentctx.storage.proofs import Canary
from agentctx.storage.records import Filter, NearestChunk

SAMPLE: Final = 20
MOST_HITS: Final = 50
NEAREST: Final = 10
SAME: Final = 1e-3
"""Largest distance of a vector to itself; texts closer than this cannot be distinguished."""


@dataclass(frozen=True, slots=True)
class SelfRetrieval:
    """How many chunks were searched by keyword and by vector, and the entries that were not found."""

    words: int = 0
    vectors: int = 0
    lost_words: tuple[str, ...] = ()
    lost_vectors: tuple[str, ...] = ()

    @property
    def lost(self) -> int:
        return len(self.lost_words) + len(self.lost_vectors)


async def retrieve_canaries(storage: Storage, sample: int = SAMPLE) -> SelfRetrieval:
    """Search a sample of live chunks, each by its rarest word and by its vectors.

    Chunks that were changed or forgotten in the meantime count as found.

    Raises:
        DeadlineExceeded, StorageFailed.
    """
    canaries = await storage.proofs.canaries(sample, most_chunks=MOST_HITS)
    lost_words = [each for each in canaries if each.word and not await _found_by_word(storage, each)]
    lost_vectors = [each for each in canaries if not await _found_by_vectors(storage, each)]
    there = await _still_there(storage, [*lost_words, *lost_vectors])
    return SelfRetrieval(
        words=sum(bool(each.word) for each in canaries),
        vectors=sum(bool(each.vectors) for each in canaries),
        lost_words=tuple(each.entry for each in lost_words if each.chunk in there),
        lost_vectors=tuple(each.entry for each in lost_vectors if each.chunk in there),
    )


async def _found_by_word(storage: Storage, canary: Canary) -> bool:
    hits = (await storage.search.by_words(canary.word, Filter(namespace=canary.namespace), MOST_HITS)).hits
    return canary.chunk in {hit.chunk for hit in hits}


async def _found_by_vectors(storage: Storage, canary: Canary) -> bool:
    wanted = Filter(namespace=canary.namespace)
    for space, vector in canary.vectors.items():
        if not is_found(canary.chunk, await storage.search.by_vector(space, vector, wanted, NEAREST)):
            return False
    return True


async def _still_there(storage: Storage, lost: Sequence[Canary]) -> set[int]:
    found: set[int] = set()
    for namespace in {each.namespace for each in lost}:
        chunks = [each.chunk for each in lost if each.namespace == namespace]
        found |= set(await storage.search.resolve(chunks, Filter(namespace=namespace)))
    return found


def is_found(chunk: int, nearest: Sequence[NearestChunk]) -> bool:
    """Return whether a chunk is near its own vector, or only indistinguishable chunks are found."""
    if any(hit.chunk == chunk for hit in nearest):
        return next(hit.distance for hit in nearest if hit.chunk == chunk) < SAME
    return len(nearest) == NEAREST and nearest[-1].distance < SAME
