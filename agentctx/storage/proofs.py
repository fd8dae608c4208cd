"""Proofs that an engine upholds the invariant, and packing of its vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from agentctx.embedding_providers.base import Vectors
from agentctx.storage.records import SpaceState


@dataclass(frozen=True, slots=True)
class SpaceVectors:
    """The vectors stored under the id of a space.

    If there is no such space, `state` is None and `fingerprint` is empty.
    """

    space: int
    state: SpaceState | None
    enabled: bool
    fingerprint: Mapping[str, str | int]
    vectors: int


@dataclass(frozen=True, slots=True)
class Canary:
    """A live chunk that must find itself.

    `word` occurs in it and in few other chunks, at most as many as requested; empty if there is no such word.
    `vectors` are its own stored vectors, by space.
    """

    chunk: int
    entry: str
    namespace: str
    word: str
    vectors: Mapping[int, Vectors]


class ProofStorage(Protocol):
    """Checks of stored data that change nothing."""

    async def count_violations(self) -> int:
        """Return the violations of the invariant that counts alone reveal, in milliseconds. 0 proves nothing
        yet.

        Each enabled space must have as many vectors and jobs as chunks, and no space more vectors than
        chunks. The census counts these too.

        Raises:
            DeadlineExceeded, StorageFailed.
        """
        ...

    async def vectors_by_space(self) -> list[SpaceVectors]:
        """Return every space, and every id under which vectors are stored without a space, ascending."""
        ...

    async def remove_left_vectors(self) -> int:
        """Remove the vectors of retired and missing spaces; return how many."""
        ...

    async def canaries(self, limit: int, *, most_chunks: int) -> list[Canary]:
        """Sample up to `limit` live chunks evenly; their words occur in at most `most_chunks` chunks."""
        ...


@dataclass(frozen=True, slots=True)
class SlotCount:
    """The numbers of slots by state.

    `dead` slots belong to blocks that packing would free; `spare` ones are all others without a vector, fewer
    than a block per namespace.
    """

    used: int = 0
    dead: int = 0
    spare: int = 0

    @property
    def dead_share(self) -> float:
        """The share of dead slots, 0 to 1; 0 for an empty table."""
        return self.dead / (self.used + self.dead + self.spare) if self.dead else 0.0


class SlotStorage(Protocol):
    """Packs the tables of vectors. An engine that stores its vectors differently has nothing to pack."""

    async def count(self) -> SlotCount:
        """Count the slots of all spaces."""
        ...

    async def step(self) -> bool:
        """Pack for some milliseconds if over a quarter of a space's slots are dead; then release free pages
        if they are over 10 % of the file. Returns False if there is nothing to do.

        Raises:
            DeadlineExceeded, StorageFailed.
        """
        ...

    async def pack(self) -> int:
        """Pack everything, step by step; return the number of vectors moved."""
        ...
