"""In-memory caches of vectors, bounded in size, filled and checked in the background.

A cache is not notified of writes: it follows the table by the seq of each stored vector. Only one transaction
writes at a time, so a snapshot has every seq up to its newest, whichever process assigned it. A question
first takes in vectors newer than the cache, so it never misses a vector committed before it; a question with
an older snapshot than the cache gets some candidates that it cannot measure.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

import structlog

from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.storage.faults import DAMAGED_VECTOR, Faults
from agentctx.storage.file.driver import Connection
from agentctx.storage.file.readers import Readers
from agentctx.storage.records import SpaceState
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex, newest_seq
from agentctx.storage.sqlite.vectors.vector_cache import VectorCache, row_bytes
from agentctx.storage.sqlite.vectors.verified_vectors import MAX_BYTES, VerifiedVectors

log = structlog.get_logger("agentctx.storage")

DEFAULT_MB: Final = 512
"""Enough for 1.3 million vectors of 384 numbers; the memory is only used as needed."""
MAX_BEHIND: Final = 256
"""How many new vectors a question reads itself, in up to 3 ms. If there are more, it searches the table."""
ROWS_PER_SLICE: Final = 512
UNCHECKED_ROWS: Final = 1_000
UNCHECKED_SHARE: Final = 0.1
"""New rows may have replaced as many older ones; beyond this share, the cache is checked for these."""
BLANK_SHARE: Final = 0.3
"""A cache with a larger share of blank rows is rebuilt."""


class VectorCaches:
    """Caches by space. `of` may be called by reading threads, everything else only by the event loop."""

    def __init__(self, readers: Readers, max_bytes: int, faults: Faults) -> None:
        self._readers = readers
        self._faults = faults
        self._max_bytes = max_bytes
        self._caches: dict[int, VectorCache] = {}
        self._verified: dict[int, VerifiedVectors] = {}
        self._too_large: set[int] = set()
        self._reported: set[int] = set()
        self._refreshing: dict[int, asyncio.Task[None]] = {}
        self._one_at_a_time = asyncio.Lock()

    @property
    def bytes(self) -> int:
        """Memory used by all caches."""
        return sum(cache.bytes for cache in list(self._caches.values()))

    def of(self, conn: Connection, space: int) -> VectorCache | None:
        """Return the cache with everything this snapshot has in the space; None: search the table."""
        cache = self._caches.get(space)
        if cache is None or not cache.is_whole:
            return None
        if not _load(conn, space, cache, MAX_BEHIND, self._faults):
            cache.is_whole = False
            return None
        return cache

    def verified(self, space: int) -> VerifiedVectors:
        """Return the cache that measures the vectors of the space; `forget_retired` replaces it.

        Call this before beginning the snapshot: a vector deleted by then never enters a later cache.
        """
        if space not in self._verified:
            self._verified[space] = VerifiedVectors(space, min(MAX_BYTES, self._max_bytes))
        return self._verified[space]

    def refresh_soon(self, space: int) -> None:
        """Create or complete the cache of the space in the background, if necessary."""
        if not self._max_bytes or space in self._too_large or space in self._refreshing:
            return
        cache = self._caches.get(space)
        if cache is None or not cache.is_whole or _is_unchecked(cache):
            task = asyncio.create_task(self._refresh(space), name=f"cache of the vectors of space {space}")
            self._refreshing[space] = task
            task.add_done_callback(lambda _: self._refreshing.pop(space))

    async def refreshed(self) -> None:
        """Wait until background work is done."""
        while self._refreshing:
            await asyncio.wait(list(self._refreshing.values()))

    async def forget_retired(self) -> None:
        """Remove deleted vectors, and spaces that do not answer, from memory."""
        self._too_large.clear()
        self._verified.clear()
        if not self._caches:
            return
        try:
            found = await self._readers.run(spaces.all_spaces)
            active = {space.id for space in found if space.state is SpaceState.ACTIVE}
            for space in list(self._caches):
                if space not in active:
                    self._caches.pop(space, None)
                await self._complete(space)
        except (DeadlineExceeded, StorageFailed):
            # What cannot be checked may contain forgotten vectors.
            self._caches.clear()

    async def close(self) -> None:
        """Stop background work."""
        tasks = list(self._refreshing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._caches.clear()
        self._verified.clear()

    async def _refresh(self, space: int) -> None:
        try:
            if space in self._caches or await self._begin(space):
                await self._complete(space)
        except (DeadlineExceeded, StorageFailed) as error:
            log.warning("vector_cache_failed", space=space, error=error.code, reason=error.message)

    async def _begin(self, space: int) -> bool:
        dimension, count = await self._readers.run(partial(_size, space=space))
        if not dimension:
            return False
        if self.bytes + count * row_bytes(dimension) > self._max_bytes:
            self._skip(space)
            return False
        self._caches[space] = VectorCache(dimension)
        return True

    async def _complete(self, space: int) -> None:
        """Add missing vectors and check the others, in slices between which other reads run.

        One at a time: a slice read before a deletion must not be added after the check that followed it.
        """
        async with self._one_at_a_time:
            while (cache := self._caches.get(space)) is not None:
                cache.is_whole = await self._readers.run(
                    partial(_continue, space=space, cache=cache, faults=self._faults)
                )
                if self.bytes > self._max_bytes:
                    self._skip(space)
                elif cache.is_whole:
                    if cache.gone > BLANK_SHARE * cache.rows:
                        self._caches.pop(space)
                    return

    def _skip(self, space: int) -> None:
        """Search the table of this space until something is deleted."""
        self._caches.pop(space, None)
        self._too_large.add(space)
        if space not in self._reported:
            self._reported.add(space)
            log.info("vectors_not_in_memory", space=space, hint="vectors.memory_mb is too little for them.")


def _is_unchecked(cache: VectorCache) -> bool:
    return cache.added > max(UNCHECKED_ROWS, UNCHECKED_SHARE * cache.rows)


def _size(conn: Connection, space: int) -> tuple[int, int]:
    """Return dimension and number of the vectors; (0, 0) without a complete table."""
    index = SpaceIndex(space)
    dimension = spaces.get(conn, space).dimension
    return (dimension, index.count(conn)) if dimension and index.exists(conn) else (0, 0)


def _load(conn: Connection, space: int, cache: VectorCache, limit: int, faults: Faults) -> bool:
    """Add up to `limit` newer undamaged vectors to the cache; return whether these were all."""
    stored = SpaceIndex(space).stored_after(conn, cache.last, limit)
    for chunk in stored.damaged:
        faults.record(DAMAGED_VECTOR, chunk)
    if stored.last > cache.last:
        cache.put(stored.vectors, stored.last)
    return stored.is_all


def _continue(conn: Connection, space: int, cache: VectorCache, faults: Faults) -> bool:
    """Add one slice; after the last one, blank what its snapshot lacks. Return whether it was the last."""
    if not _load(conn, space, cache, ROWS_PER_SLICE, faults):
        return False
    cache.keep(SpaceIndex(space).seqs(conn), newest_seq(conn))
    return True
