"""Checks and repairs, and the removal of every trace of deleted data."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from agentctx.errors import StorageCorrupt
from agentctx.storage.records import Census, SpaceFault
from agentctx.storage.words import TERM_RULES
from agentctx.wire.wording import listed
from agentctx_postgresql.connections import (
    CHECK_TIMEOUT_S,
    PostgresqlConnections,
    PostgresqlPart,
)
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.upkeep import integrity, proofs, repair, tidying, words
from agentctx_postgresql.upkeep.words import WordSlice
from agentctx_postgresql.vectors import spaces


class PostgresqlUpkeep(PostgresqlPart):
    """`UpkeepStorage` on a PostgreSQL server."""

    def __init__(self, connections: PostgresqlConnections) -> None:
        super().__init__(connections)
        self._tidying = asyncio.Lock()

    async def check_integrity(self) -> list[str]:
        async with self.db.one_check:
            return await integrity.check_database(self.db)

    async def repair_file(self) -> bool:
        """Rebuild the indexes; damaged tables are left to the server's operator."""
        if not await self.check_integrity():
            return False
        await self.db.prepare(integrity.rebuild_indexes)
        if left := await self.check_integrity():
            raise StorageCorrupt(
                f"The PostgreSQL server still has: {listed(left, separator='; ')}.",
                hint="Drop what is not agentctx's yourself. For damaged tables, restore a dump.",
            )
        return True

    async def check_words(self) -> str | None:
        wrong = await self._in_slices(lambda work: self.db.read(work, CHECK_TIMEOUT_S), words.compare)
        stray = await self.db.check(lambda conn: conn.fetchval(words.STRAY))
        return f"the words of {wrong + stray} chunks do not match their texts" if wrong + stray else None

    async def check_vectors(self) -> list[SpaceFault]:
        return await self.db.check(integrity.check_vectors)

    async def census(self) -> Census:
        async with self.db.one_check:
            counted, following = await self.db.read(proofs.take_slice, CHECK_TIMEOUT_S)
            while following is not None:
                step = partial(proofs.take_slice, first=following)
                more, following = await self.db.read(step, CHECK_TIMEOUT_S)
                counted += more
        return counted

    async def remove_orphans(self) -> int:
        return await self.db.write(repair.remove_orphans, self._note_removed)

    async def create_missing_jobs(self) -> int:
        made = 0
        for space in await self.db.read(spaces.all_spaces):
            step = partial(spaces.create_missing_jobs, space_id=space.id, now=self.db.clock(), limit=10_000)
            while added := (await self.db.write(step))[0]:
                made += added
        return made

    async def rebuild_words(self) -> int:
        """Rebuild each row in place, so that keyword search misses nothing meanwhile."""
        await self.db.write(lambda conn: conn.execute(repair.DELETE_STRAY_WORDS))
        rebuilt = await self._in_slices(self.db.write, words.write)
        await self.db.write(lambda conn: conn.execute(words.REMEMBER_RULES, TERM_RULES))
        return rebuilt

    async def resume_words(self) -> int | None:
        """Rebuild words that were written by earlier rules, in place; None if there are none."""
        rules = await self.db.check(lambda conn: conn.fetchval(words.RULES))
        return None if rules == TERM_RULES else await self.rebuild_words() or None

    async def rebuild_vectors(self, space: int) -> int:
        rebuild_file = partial(repair.recreate_vectors, space=space, now=self.db.clock())
        return await self.db.write(rebuild_file, self._note_removed)

    async def tidy(self) -> bool:
        async with self._tidying:
            return await tidying.tidy(self.db)

    @property
    def remains(self) -> Sequence[str]:
        return (tidying.UNUSED_SPACE, *tidying.BEYOND_REACH)

    rewrite_problem = None

    async def rewrite(self) -> Sequence[str]:
        async with self._tidying:
            await tidying.rewrite(self.db)
        return tidying.BEYOND_REACH

    async def wait_for_work(self) -> None:
        await self.db.erasures.is_due.wait()

    def _note_removed(self, _: int) -> None:
        self.db.erasures.note_deletion()

    async def _in_slices(
        self,
        run: Callable[[Callable[[Connection], Awaitable[WordSlice]]], Awaitable[WordSlice]],
        step: Callable[..., Awaitable[WordSlice]],
    ) -> int:
        """Run the step for all slices and return the total."""
        total, last = 0, -1
        while True:
            done = await run(partial(step, after=last))
            if done.last is None:
                return total
            total, last = total + done.chunks, done.last
