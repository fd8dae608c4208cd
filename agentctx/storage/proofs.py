"""What an engine does to prove that it keeps its promises, and to keep the space it takes in bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from agentctx.embedding_providers.base import Vectors
from agentctx.storage.records import SpaceState


@dataclass(frozen=True, slots=True)
class SpaceVectors:
    """The vectors that are kept under the id of a space.

    `state` is None when there is no such space; `fingerprint` is empty then.
    """

    space: int
    state: SpaceState | None
    enabled: bool
    fingerprint: Mapping[str, str | int]
    vectors: int


@dataclass(frozen=True, slots=True)
class Canary:
    """A live chunk that must find itself.

    `word` occurs in it and in few other chunks, in all at most as many as were asked for; empty when it has
    no such word. `vectors` are its own, stored ones, by space.
    """

    chunk: int
    entry: str
    namespace: str
    word: str
    vectors: Mapping[int, Vectors]


class ProofStorage(Protocol):
    """Looking at what is stored without changing it."""

    async def count_violations(self) -> int:
        """Violations of the invariant that counting alone shows, in milliseconds. 0 proves nothing yet.

        It looks whether each enabled space has as many vectors and jobs as there are chunks, and no space
        more vectors than chunks. What it counts, the census counts as well.

        Raises:
            DeadlineExceeded, StorageFailed.
        """
        ...

    async def vectors_by_space(self) -> list[SpaceVectors]:
        """Every space, and everything under which vectors are kept without one, ascending."""
        ...

    async def remove_left_vectors(self) -> int:
        """Remove the vectors of retired spaces and of those that are not there; returns how many."""
        ...

    async def canaries(self, limit: int, *, most_chunks: int) -> list[Canary]:
        """Up to `limit` live chunks, spread evenly; their words occur in at most `most_chunks` chunks."""
        ...


@dataclass(frozen=True, slots=True)
class SlotCount:
    """Slots by what becomes of them.

    `dead` ones are those of the blocks that packing gives back; `spare` ones are all others without a vector,
    fewer than a block for each namespace.
    """

    used: int = 0
    dead: int = 0
    spare: int = 0

    @property
    def dead_share(self) -> float:
        """0 to 1; of an empty table 0."""
        return self.dead / (self.used + self.dead + self.spare) if self.dead else 0.0


class SlotStorage(Protocol):
    """Packing the tables of vectors. An engine that keeps its vectors elsewhere has nothing to pack."""

    async def count(self) -> SlotCount:
        """The slots of all spaces."""
        ...

    async def step(self) -> bool:
        """Pack for some milliseconds, if over a quarter of the slots of a space is dead; then give the file's
        free pages back, if they are over 10 % of it. False: nothing is to be done.

        Raises:
            DeadlineExceeded, StorageFailed.
        """
        ...

    async def pack(self) -> int:
        """Pack all there is to pack, step by step; returns the number of vectors moved."""
        ...
