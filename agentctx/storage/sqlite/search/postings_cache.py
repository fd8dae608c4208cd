"""Keeps the postings in memory in step with the index.

The writer reports the chunks whose words a commit changed before the commit is acknowledged. They match
nothing from then on, until a question, or the background, has read them again. A question says which reports
came before its snapshot, and reads only the chunks of these, since the snapshot may be older than the others.
Then the totals of the postings must equal those of the snapshot, which has no newer chunk: whatever else has
changed the index, another program or damage, is noticed by that.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final

import structlog

from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.storage.bm25 import Corpus
from agentctx.storage.file.driver import FIRST_ID, Connection
from agentctx.storage.file.readers import Readers
from agentctx.storage.sqlite.search import fts
from agentctx.storage.sqlite.search.postings import (
    CHUNK_BYTES,
    POSTING_BYTES,
    Batch,
    IndexedChunk,
    WordPostings,
)
from agentctx.storage.sqlite.search.word_index import REPLACED

log = structlog.get_logger("agentctx.storage")

DEFAULT_MB: Final = 512
"""Enough for 1.5 million chunks of 70 words; the memory is only used as needed."""
MAX_BEHIND: Final = 64
"""How many changed chunks a question reads itself, in up to 4 ms. If there are more, FTS5 answers."""
MAX_CHANGED: Final = 10_000
"""With more changed chunks, everything is loaded again."""
CHUNKS_PER_SLICE: Final = 256
PATIENCE_S: Final = 0.01
TRIES: Final = 4
"""A commit may be seen before its report, so that totals must differ twice."""

_AFTER: Final = "SELECT id FROM chunk_fts_docsize WHERE id > ? ORDER BY id LIMIT ?"
_CHUNKS: Final = """SELECT docs.id, docs.sz, entries.namespace, entries.collection, entries.session
    FROM json_each(?) wanted CROSS JOIN chunk_fts_docsize docs ON docs.id = wanted.value
    LEFT JOIN chunks ON chunks.id = docs.id LEFT JOIN entries ON entries.seq = chunks.entry
    ORDER BY docs.id"""


class PostingsCache:
    """The postings of the index in service, or none. Readers call `of`, the writer's thread `note`."""

    def __init__(
        self, readers: Readers, max_bytes: int, vectors_loaded: Callable[[], Awaitable[None]]
    ) -> None:
        self._readers = readers
        self._vectors_loaded = vectors_loaded
        self._max_bytes = max_bytes
        self._is_given_up = not max_bytes
        self._postings: WordPostings | None = None
        self._last = FIRST_ID
        """The chunk up to which the index was loaded."""
        self._is_whole = False
        self._changed: dict[int, int] = {}
        """The chunks to read again, each with its latest report."""
        self._reports = 0
        self._is_doubted = False
        self._changing = threading.Lock()
        self._reading = threading.Lock()
        """Held while chunks are read and added."""
        self._refreshing: asyncio.Task[None] | None = None

    @property
    def bytes(self) -> int:
        """Memory used."""
        return self._postings.bytes if self._postings is not None else 0

    @property
    def is_whole(self) -> bool:
        """Whether a question is likely to be answered from memory."""
        return self._postings is not None and self._is_whole

    @property
    def reports(self) -> int:
        """The number of reports so far. Take it before the snapshot begins, for `of`."""
        return self._reports

    def note(self, changed: AbstractSet[Any]) -> None:
        """Report the chunks whose words may have changed, or `REPLACED`, after the commit."""
        with self._changing:
            self._reports += 1
            if REPLACED in changed or len(self._changed) > MAX_CHANGED:
                self._postings, self._is_given_up = None, not self._max_bytes
                self._changed.clear()
            if self._postings is not None:
                chunks = list(changed - {REPLACED})
                self._changed.update(dict.fromkeys(chunks, self._reports))
                self._postings.remove(chunks)

    def of(self, conn: Connection, corpus: Corpus, reports: int) -> WordPostings | None:
        """Return the postings if they are those of the snapshot with these totals; None: ask FTS5.

        `reports` is the number of reports before the snapshot began.
        """
        postings = self._postings
        if postings is None or not self._is_whole or not self._read_changed(conn, postings, reports):
            return None
        if not _is_equal(conn, postings, corpus):
            self._is_doubted = True
            return None
        return postings

    def _read_changed(self, conn: Connection, postings: WordPostings, reports: int) -> bool:
        """Read what changed up to the report; return False if that is too much, or read by another thread."""
        if not self._changed:
            return True
        if not self._reading.acquire(timeout=PATIENCE_S):
            return False
        try:
            with self._changing:
                due = [chunk for chunk, report in self._changed.items() if report <= reports]
            if due[:MAX_BEHIND]:
                self._add(conn, postings, due[:MAX_BEHIND], reports)
            return len(due) <= MAX_BEHIND
        finally:
            self._reading.release()

    def _add(self, conn: Connection, postings: WordPostings, chunks: Sequence[int], reports: int) -> None:
        """Read chunks and add those that are in the index and were not reported after these reports."""
        batch = _read(conn, chunks)
        with self._changing:
            postings.add(batch)
            later = [chunk for chunk in chunks if self._changed.get(chunk, 0) > reports]
            postings.remove(later)
            for chunk in set(chunks).difference(later):
                self._changed.pop(chunk, None)

    def refresh_soon(self) -> None:
        """Load or complete the postings in the background, if necessary."""
        if self._is_given_up or self._refreshing is not None:
            return
        is_behind = self._is_doubted or len(self._changed) > MAX_BEHIND
        if self._postings is None or not self._is_whole or is_behind:
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
            if self._postings is not None:
                self._postings.erase_removed()

    async def close(self) -> None:
        """Stop background work."""
        self._is_given_up = True
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        self._postings = None

    async def _refresh(self) -> None:
        self._is_doubted = False
        try:
            for attempt in range(TRIES):
                is_equal = None
                while is_equal is None:
                    # A question misses these more: without them, it takes a hundred times as long.
                    await self._vectors_loaded()
                    is_equal = await self._readers.run(partial(self._continue, reports=self._reports))
                if is_equal:
                    return
                if attempt % 2:
                    self._postings = None
            log.warning("postings_not_in_step", hint="Run `agentctx doctor`.")
        except (DeadlineExceeded, StorageFailed) as error:
            log.warning("postings_not_loaded", error=error.code, reason=error.message)
        self._postings, self._is_given_up = None, True

    def _continue(self, conn: Connection, reports: int) -> bool | None:
        """Add a slice; after the last one, return whether the totals equal those of the index."""
        corpus = fts.corpus(conn)
        if corpus.chunks * CHUNK_BYTES + corpus.tokens * POSTING_BYTES > self._max_bytes:
            log.info("postings_not_in_memory", hint="words.memory_mb is too little for them.")
            self._postings, self._is_given_up = None, True
            return True
        postings = self._postings
        if postings is None or postings.is_sparse:
            with self._changing:
                self._postings, self._last, self._is_whole = WordPostings(), FIRST_ID, False
                self._changed.clear()
            return None
        if not self._is_whole:
            self._is_whole = self._load_slice(conn, postings, reports)
            return None
        if not self._read_changed(conn, postings, reports):
            return None
        is_equal = _is_equal(conn, postings, corpus)
        return is_equal if is_equal or not self._changed else None

    def _load_slice(self, conn: Connection, postings: WordPostings, reports: int) -> bool:
        """Return whether nothing is left."""
        with self._reading:
            chunks = [row[0] for row in conn.execute(_AFTER, (self._last, CHUNKS_PER_SLICE))]
            if chunks:
                self._add(conn, postings, chunks, reports)
                self._last = chunks[-1]
        return not chunks


def _is_equal(conn: Connection, postings: WordPostings, corpus: Corpus) -> bool:
    """Return whether the postings are those of the index; a new text may be as long as what it replaced."""
    return postings.corpus == corpus and fts.newest_chunk(conn) <= postings.newest


def _read(conn: Connection, chunks: Sequence[int]) -> Batch:
    """Read those of the chunks that are in the index.

    A damaged text has other words than the index has for it, but no answer shows it.
    """
    rows = conn.execute(_CHUNKS, (json.dumps(list(chunks)),)).fetchall()
    found = [IndexedChunk(chunk, sum(fts.sizes_of(sizes)), *scope) for chunk, sizes, *scope in rows]
    words = fts.words_of(conn, [each.chunk for each in found])
    hashes = [hash(word) for word, _ in words]
    having = fts.numbers(",".join(chunks for _, chunks in words))
    return Batch(found, hashes, [chunks.count(",") + 1 for _, chunks in words], having)
