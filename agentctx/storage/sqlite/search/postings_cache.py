"""Keeps the postings in memory in step with the index.

The writer reports the chunks whose words a commit changed, before the commit is acknowledged. They match
nothing from then on, until a question, or the background, has read them again. A question says which reports
came before its snapshot, and reads only chunks of these, since the snapshot may be older than other reports.
Then the totals of the postings must equal those of the snapshot: whatever else has changed the index, another
program or damage, is noticed by that.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final

import structlog

from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.storage.file.driver import Connection
from agentctx.storage.file.readers import Readers
from agentctx.storage.sqlite.search import fts
from agentctx.storage.sqlite.search.fts import Corpus
from agentctx.storage.sqlite.search.postings import CHUNK_BYTES, POSTING_BYTES, WordPostings
from agentctx.storage.sqlite.search.postings_loading import PostingsLoading, indexed_chunks
from agentctx.storage.sqlite.search.word_index import REPLACED

log = structlog.get_logger("agentctx.storage")

DEFAULT_MB: Final = 512
MAX_BEHIND: Final = 64
"""How many changed chunks a question reads itself, in up to 3 ms. If there are more, FTS5 answers."""
MAX_CHANGED: Final = 10_000
"""With more changed chunks, loading everything is faster than reading them."""
MAX_ADDED: Final = 2_000
"""How many chunks are added before they are merged."""
PATIENCE_S: Final = 0.01
TRIES: Final = 3


class PostingsCache:
    """The postings of the index in service, or none. `of` is for reading threads, `note` for the writer's."""

    def __init__(self, readers: Readers, max_bytes: int) -> None:
        self._readers = readers
        self._max_bytes = max_bytes
        self._postings: WordPostings | None = None
        self._changed: dict[int, int] = {}
        """The chunks to read again, each with its latest report."""
        self._reports = 0
        self._replaced = 0
        """The latest report that another index is in service."""
        self._changing = threading.Lock()
        self._reading = threading.Lock()
        """Held while changed chunks are read and added, and while postings are merged."""
        self._is_doubted = False
        self._is_given_up = not max_bytes
        self._refreshing: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()

    @property
    def bytes(self) -> int:
        """Memory used."""
        return self._postings.bytes if self._postings is not None else 0

    @property
    def reports(self) -> int:
        """The number of reports so far. Take it before the snapshot begins, for `of`."""
        return self._reports

    def note(self, changed: AbstractSet[Any]) -> None:
        """Report the chunks whose words may have changed, or `REPLACED`, after the commit."""
        if not self._max_bytes:
            return
        with self._changing:
            self._reports += 1
            if REPLACED in changed or len(self._changed) > MAX_CHANGED:
                self._postings, self._replaced, self._is_given_up = None, self._reports, False
                self._changed.clear()
            chunks = changed - {REPLACED}
            self._changed.update(dict.fromkeys(chunks, self._reports))
            if self._postings is not None:
                self._postings.remove(chunks)

    def of(self, conn: Connection, corpus: Corpus, reports: int) -> WordPostings | None:
        """Return the postings if they are those of the snapshot with these totals; None: ask FTS5.

        `reports` is the number of reports before the snapshot began.
        """
        postings = self._postings
        if postings is None or not self._read_changed(conn, postings, reports, MAX_BEHIND):
            return None
        if postings.totals != (corpus.chunks, corpus.tokens):
            self._is_doubted = True
            return None
        return postings

    def _read_changed(self, conn: Connection, postings: WordPostings, reports: int, limit: int) -> bool:
        """Read chunks that changed up to the report; return False if there are more, or one is unreadable."""
        if not self._changed:
            return True
        if not self._reading.acquire(timeout=PATIENCE_S):
            return False
        try:
            with self._changing:
                due = {chunk: report for chunk, report in self._changed.items() if report <= reports}
            return self._added(conn, postings, dict(list(due.items())[:limit])) and len(due) <= limit
        finally:
            self._reading.release()

    def _added(self, conn: Connection, postings: WordPostings, due: dict[int, int]) -> bool:
        if not due:
            return True
        found = indexed_chunks(conn, list(due))
        with self._changing:
            if self._postings is not postings:
                return False
            if found is None:
                self._postings = None
                return False
            current = {chunk for chunk, report in due.items() if self._changed.get(chunk) == report}
            for indexed, words in found:
                if indexed.chunk in current:
                    postings.add(indexed, words)
            for chunk in current:
                del self._changed[chunk]
        return True

    def refresh_soon(self) -> None:
        """Load or complete the postings in the background, if necessary."""
        if self._is_given_up or self._refreshing is not None:
            return
        postings = self._postings
        if (
            postings is None
            or self._is_doubted
            or len(self._changed) > MAX_BEHIND
            or postings.added > MAX_ADDED
        ):
            self._refreshing = asyncio.create_task(self._refresh(), name="postings in memory")
            self._refreshing.add_done_callback(lambda _: setattr(self, "_refreshing", None))

    async def refreshed(self) -> None:
        """Wait until background work is done."""
        if self._refreshing is not None:
            await asyncio.wait([self._refreshing])

    async def erase_removed(self) -> None:
        """Erase the postings of removed chunks from memory."""
        self._is_given_up = not self._max_bytes
        await asyncio.to_thread(self._erase_removed)

    def _erase_removed(self) -> None:
        with self._reading:
            if (postings := self._postings) is not None:
                postings.erase_removed()

    async def close(self) -> None:
        """Stop background work."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        self._postings, self._is_given_up = None, True

    async def _refresh(self) -> None:
        try:
            for _ in range(TRIES):
                if self._postings is None and not await self._load():
                    return
                if await self._is_in_step():
                    return
                self._postings = None
            log.warning("postings_not_in_step", hint="Run `agentctx doctor`.")
        except (DeadlineExceeded, StorageFailed) as error:
            log.warning("postings_not_loaded", error=error.code, reason=error.message)
        self._postings, self._is_given_up = None, True

    async def _load(self) -> bool:
        corpus = await self._readers.run(fts.corpus)
        if corpus.chunks * CHUNK_BYTES + corpus.tokens * POSTING_BYTES > self._max_bytes:
            log.info("postings_not_in_memory", hint="words.memory_mb is too little for them.")
            self._is_given_up = True
            return False
        begun = self._reports
        with self._changing:
            self._changed = {chunk: report for chunk, report in self._changed.items() if report > begun}
        loading = PostingsLoading()
        while not await self._readers.run(loading.read_slice):
            pass
        loaded = await asyncio.to_thread(loading.loaded)
        with self._changing:
            if self._replaced <= begun:
                loaded.remove(self._changed)
                self._postings = loaded
        return True

    async def _is_in_step(self) -> bool:
        """Add what is missing, and compare the totals with those of the index, twice if they differ."""
        self._is_doubted = False
        for _ in range(2):
            while True:
                await self._merge()
                reports, postings = self._reports, self._postings
                if postings is None:
                    return False
                is_equal = await self._readers.run(partial(self._compare, postings=postings, reports=reports))
                if is_equal:
                    return True
                if not self._changed:
                    break
        return False

    def _compare(self, conn: Connection, postings: WordPostings, reports: int) -> bool:
        corpus = fts.corpus(conn)
        self._read_changed(conn, postings, reports, MAX_BEHIND)
        return not self._changed and postings.totals == (corpus.chunks, corpus.tokens)

    async def _merge(self) -> None:
        postings = self._postings
        if postings is not None and postings.added > MAX_ADDED:
            await asyncio.to_thread(self._merge_now, postings)

    def _merge_now(self, postings: WordPostings) -> None:
        with self._reading:
            merged = postings.merged()
            with self._changing:
                if self._postings is postings:
                    merged.remove(self._changed)
                    self._postings = merged
