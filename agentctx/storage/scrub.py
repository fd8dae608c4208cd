"""Verifies all rows against their checksums: in slices in the background, or all at once for the doctor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from agentctx.storage.chunk_texts import ChunkTexts, Piece, is_covered
from agentctx.storage.faults import Faults
from agentctx.storage.records import Damage, ScrubState
from agentctx.text.chunking.entry import CHUNKING_VERSION
from agentctx.times import Clock

PASS_EVERY_MS: Final = 86_400_000
_CURSOR, _BEGAN, _FINISHED, _DAMAGED, _RESULT = "cursor", "began", "finished", "damaged", "result"


@dataclass(frozen=True, slots=True)
class ScrubSlice:
    """The damage in a slice; `last` is its last row, or None at the end of the table."""

    last: int | None
    damage: tuple[Damage, ...]


class StoredChunk(NamedTuple):
    """A row of `chunks`."""

    id: int
    ordinal: int
    piece: Piece
    hash: bytes
    chunking: int


class ScrubStorage(ABC):
    """Verifies stored data against checksums. An engine stores the numbers of the current pass."""

    def __init__(self, clock: Clock, faults: Faults) -> None:
        self._clock = clock
        self._faults = faults

    @abstractmethod
    async def _numbers(self) -> Mapping[str, int]: ...

    @abstractmethod
    async def _remember(self, numbers: Mapping[str, int]) -> None: ...

    @abstractmethod
    async def _read_slice(self, after: int) -> ScrubSlice:
        """Check the rows after `after`, with their chunks and vectors."""

    @property
    def failures(self) -> int:
        """Number of reads since startup that found damaged data and omitted it from the answer."""
        return self._faults.count

    async def step(self) -> bool:
        """Check a bounded slice if a pass is running or due (once a day); return False if nothing is left."""
        now = self._clock()
        state = await self._numbers()
        cursor = state.get(_CURSOR, 0)
        # A clock that was set back must not delay a pass any longer.
        if cursor == 0 and 0 <= now - state.get(_BEGAN, 0) < PASS_EVERY_MS:
            return False
        began = state.get(_BEGAN, now) if cursor else now
        before = state.get(_DAMAGED, 0) if cursor else 0
        found = await self._check_slice(cursor)
        after = {_BEGAN: began, _DAMAGED: before + len(found.damage), _CURSOR: found.last or 0}
        if found.last is None:
            after |= {_FINISHED: now, _RESULT: after[_DAMAGED]}
        await self._remember(after)
        return found.last is not None

    async def state(self) -> ScrubState:
        numbers = await self._numbers()
        return ScrubState(finished=numbers.get(_FINISHED), damaged=numbers.get(_RESULT, 0))

    @abstractmethod
    async def repair(self) -> list[Damage]:
        """Check everything, create jobs for damaged vectors, and return what cannot be rebuilt."""

    async def check_all(self) -> list[Damage]:
        """Check everything now."""
        damage: list[Damage] = []
        cursor: int | None = 0
        while cursor is not None:
            found = await self._check_slice(cursor)
            damage += found.damage
            cursor = found.last
        return damage

    async def _check_slice(self, cursor: int) -> ScrubSlice:
        found = await self._read_slice(cursor)
        for damage in found.damage:
            self._faults.record(damage.what, damage.entry)
        return found


def chunk_damage(entry_id: str, texts: ChunkTexts, chunks: Sequence[StoredChunk]) -> Iterator[Damage]:
    """Compare the chunks of a live version, in order, with its texts."""
    if not chunks or not is_covered(texts, [chunk.piece for chunk in chunks]):
        yield Damage(entry_id, "chunk")
    for index, chunk in enumerate(chunks):
        is_known = chunk.ordinal == index and 1 <= chunk.chunking <= CHUNKING_VERSION
        if not is_known or not texts.is_sound(chunk.piece, chunk.hash):
            yield Damage(entry_id, "chunk")
