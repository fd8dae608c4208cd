"""Checks and repairs, and complete removal of deleted data."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.storage.file.driver import FIRST_ID
from agentctx.storage.records import Census
from agentctx.storage.sqlite.connections import SqlitePart, checks
from agentctx.storage.sqlite.statements import SqliteFollower
from agentctx.storage.sqlite.upkeep import file_repair, integrity, proofs, repair, word_rebuild
from agentctx.storage.sqlite.upkeep.rewrite import Rewriter
from agentctx.storage.upkeep import REWRITE_WAIT_S, UpkeepStorage

CLOSING_PATIENCE_MS: Final = 5_000
"""How long to wait for reads to end before the file is rebuilt."""
_RETRY_S: Final = 0.1
UNUSED_SPACE: Final = (
    "unused parts of the database file, for up to a day; `agentctx forget --rewrite` removes it at once"
)


class SqliteUpkeep(SqlitePart, UpkeepStorage):
    """`UpkeepStorage` on the SQLite file."""

    def __init__(self, follower: SqliteFollower) -> None:
        super().__init__(follower.db)
        self.follower = follower
        self._rebuilding = asyncio.Lock()
        self._tidying = asyncio.Lock()
        self.rewriter = Rewriter(self.db)

    check_integrity = checks(integrity.check_database)
    check_words = checks(integrity.check_words)
    check_vectors = checks(integrity.check_vectors)

    async def repair_file(self) -> bool:
        problems = await self.check_integrity()
        if not problems:
            return False
        if all(map(integrity.is_index_problem, problems)):
            with contextlib.suppress(StorageFailed):  # duplicates, which an index must not have
                await self.db.writer.run(lambda conn: conn.execute("REINDEX").fetchall())
            if not await self.check_integrity():
                return True
        rebuild = partial(file_repair.rebuild_derived, now=self.db.clock())
        async with self.db.one_check:
            await self.db.writer.while_closed(rebuild, patience_ms=CLOSING_PATIENCE_MS)
        await self.inspect_words()
        return True

    async def census(self) -> Census:
        async with self.db.one_check:
            counted, following = await self.db.readers.run(proofs.take_slice)
            while following is not None:
                more, following = await self.db.read(proofs.take_slice, first=following)
                counted += more
            await self.inspect_words()
        return counted

    async def remove_orphans(self) -> int:
        removed = 0
        for step in (
            repair.remove_orphan_vectors,
            repair.remove_orphan_jobs,
            repair.remove_orphan_chunks,
        ):
            while changed := await self.db.remove(step):
                removed += changed
        if words := await self.db.check(repair.orphan_words):
            await self.rebuild_words()
        return removed + words

    async def rebuild_words(self) -> int:
        async with self._rebuilding:
            await self.db.remove(word_rebuild.begin)
            return await self._finish_words()

    async def resume_words(self) -> int | None:
        async with self._rebuilding:
            if not (await self.db.readers.run(word_rebuild.count)).is_rebuilt:
                return None
            return await self._finish_words()

    async def _finish_words(self) -> int:
        try:
            await self.inspect_words()
            last: int | None = FIRST_ID
            while last is not None:
                last = await self._add_words(last)
            return await self.db.remove(word_rebuild.finish, now=self.db.clock())
        finally:
            await self.inspect_words()

    async def _add_words(self, after: int) -> int | None:
        step = await self.db.write(word_rebuild.add_words, after=after, now=self.db.clock())
        for entry in step.damaged:
            self.db.faults.record("entry", entry)
        return step.last if step.looked_at else None

    async def inspect_words(self) -> None:
        """Determine what keyword search misses."""
        try:
            self.db.keyword_gap = word_rebuild.shortfall(await self.db.readers.run(word_rebuild.count))
        except StorageFailed:
            self.db.keyword_gap = word_rebuild.UNREADABLE

    async def tidy(self) -> bool:
        async with self._tidying:
            await self.db.caches.forget_retired()
            await self.db.postings.erase_removed()
            return await self.db.tidying.tidy()

    @property
    def remains(self) -> Sequence[str]:
        return (UNUSED_SPACE,)

    @property
    def rewrite_problem(self) -> str | None:
        return self.rewriter.problem

    async def rewrite(self) -> Sequence[str]:
        await self.rewriter.rewrite(insists=True)
        deadline = time.monotonic() + REWRITE_WAIT_S
        while not await self.tidy():
            if time.monotonic() > deadline:
                raise DeadlineExceeded(
                    "The database was being read all the time, so deleted text is still in its files.",
                    hint="Run `agentctx forget --rewrite` again when the reads have ended.",
                )
            await asyncio.sleep(_RETRY_S)
        return ()

    async def wait_for_work(self) -> None:
        await self.db.tidying.due()
