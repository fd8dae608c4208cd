"""Checks and repairs, and leaving nothing behind of what was removed."""

from __future__ import annotations

from functools import partial

from agentctx.storage.bookkeeping import Bookkeeping
from agentctx.storage.entries import ErasureListener
from agentctx.storage.records import Census, SpaceFault
from agentctx.storage.sqlite import bookkeeping, census, installation, integrity, repair, spaces, word_index
from agentctx.storage.sqlite.connections import SqliteConnections


class SqliteCare(SqliteConnections):
    """See the protocol for each method."""

    async def check_integrity(self) -> list[str]:
        return await self._check(integrity.check_database)

    async def check_words(self) -> str | None:
        return await self._check(integrity.check_words)

    async def check_vectors(self) -> list[SpaceFault]:
        return await self._check(integrity.check_vectors)

    async def check_bookkeeping(self) -> Bookkeeping:
        return await self._check(bookkeeping.look)

    async def forget_set_aside(self) -> int:
        return await self._writer.run(installation.forget_set_aside)

    async def census(self) -> Census:
        async with self._one_check:
            counted, following = await self._readers.run(census.take_slice)
            while following is not None:
                more, following = await self._readers.run(partial(census.take_slice, first=following))
                counted += more
        return counted

    async def remove_orphans(self) -> int:
        removed = 0
        for step in (
            repair.remove_orphan_vectors,
            repair.remove_orphan_jobs,
            repair.remove_orphan_chunks,
        ):
            removed += await self._repeat(step)
        if words := await self._check(repair.orphan_words):
            await self.rebuild_words()
        return removed + words

    async def owe_missing(self) -> int:
        enabled = await self._readers.run(spaces.enabled_ids)
        step = partial(spaces.backfill, now=self._clock(), limit=repair.ROWS_A_STEP)
        return sum([await self._repeat(partial(step, space_id=space)) for space in enabled])

    async def rebuild_words(self) -> int:
        await self._removing(word_index.make_empty)
        last = added = 0
        while (step := await self._writer.run(partial(repair.add_words, after=last))).added:
            last, added = step.last, added + step.added
        return added

    async def rebuild_vectors(self, space: int) -> int:
        return await self._removing(partial(repair.remake_vectors, space_id=space, now=self._clock()))

    async def tidy(self) -> bool:
        return await self._tidying.tidy()

    async def untidy(self) -> None:
        await self._tidying.due()

    def tell_erased(self, listener: ErasureListener) -> None:
        self._tidying.listeners.append(listener)
