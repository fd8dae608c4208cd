"""Checks and repairs, and leaving nothing behind of what was removed."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from functools import partial
from typing import Final

import structlog

from agentctx.errors import StorageFailed
from agentctx.sqlite.driver import FIRST_ID
from agentctx.storage.bookkeeping import Bookkeeping
from agentctx.storage.care import FileRepair
from agentctx.storage.entries import ErasureListener
from agentctx.storage.records import Census, SpaceFault
from agentctx.storage.sqlite import (
    bookkeeping,
    census,
    installation,
    integrity,
    repair,
    salvage,
    spaces,
    word_rebuild,
)
from agentctx.storage.sqlite.connections import SqliteConnections

log = structlog.get_logger("agentctx.storage")

CLOSING_PATIENCE_MS: Final = 5_000
"""For reads to end before the file is made again."""


class SqliteCare(SqliteConnections):
    """See the protocol for each method."""

    async def check_integrity(self) -> list[str]:
        return await self._check(integrity.check_database)

    async def repair_file(self) -> FileRepair | None:
        problems = await self.check_integrity()
        if problems and all(map(integrity.is_of_an_index, problems)):
            with contextlib.suppress(StorageFailed):  # duplicates, which an index must not have
                await self._writer.run(repair.remake_indexes)
            if not await self.check_integrity():
                return FileRepair(entries=(await self.census()).entries)
        elif not problems:
            return None
        return await self._remake_file()

    async def _remake_file(self) -> FileRepair:
        remake = partial(salvage.remake_file, now=self._clock())
        async with self._one_check:
            repaired = await self._writer.while_closed(remake, patience_ms=CLOSING_PATIENCE_MS)
        await self.look_at_words()
        log.warning("database_remade", **asdict(repaired))
        return repaired

    async def check_words(self) -> str | None:
        return await self._check(integrity.check_words)

    async def check_vectors(self) -> list[SpaceFault]:
        return await self._check(integrity.check_vectors)

    async def check_bookkeeping(self) -> Bookkeeping:
        return await self._check(bookkeeping.look)

    async def mend_bookkeeping(self) -> int:
        mended = await self._writer.run(partial(bookkeeping.mend, now=self._clock()))
        forgotten = await self._writer.run(installation.forget_set_aside)
        return sum(damaged.rows for damaged in mended) + forgotten

    async def census(self) -> Census:
        async with self._one_check:
            counted, following = await self._readers.run(census.take_slice)
            while following is not None:
                more, following = await self._readers.run(partial(census.take_slice, first=following))
                counted += more
            await self.look_at_words()
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
        async with self._rebuilding:
            await self._removing(word_rebuild.begin)
            return await self._finish_words()

    async def resume_words(self) -> int | None:
        async with self._rebuilding:
            if not (await self._readers.run(word_rebuild.count)).is_rebuilt:
                return None
            return await self._finish_words()

    async def _finish_words(self) -> int:
        try:
            await self.look_at_words()
            last: int | None = FIRST_ID
            while last is not None:
                last = await self._add_words(last)
            return await self._removing(partial(word_rebuild.finish, now=self._clock()))
        finally:
            await self.look_at_words()

    async def _add_words(self, after: int) -> int | None:
        step = await self._writer.run(partial(word_rebuild.add_words, after=after, now=self._clock()))
        for entry in step.damaged:
            self.faults.note("entry", entry)
        return step.last if step.looked_at else None

    async def look_at_words(self) -> None:
        """Find out what keyword search misses."""
        try:
            self.words_shortfall = word_rebuild.shortfall(await self._readers.run(word_rebuild.count))
        except StorageFailed:
            self.words_shortfall = word_rebuild.UNREADABLE

    async def rebuild_vectors(self, space: int) -> int:
        return await self._removing(partial(repair.remake_vectors, space_id=space, now=self._clock()))

    async def tidy(self) -> bool:
        return await self._tidying.tidy()

    async def untidy(self) -> None:
        await self._tidying.due()

    def tell_erased(self, listener: ErasureListener) -> None:
        self._tidying.listeners.append(listener)
