"""Searches by words and by vectors: all reads of a question, decided on between them, in one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

from agentctx.errors import StorageCorrupt
from agentctx.storage.faults import Faults
from agentctx.storage.file.driver import Connection, Error, translated
from agentctx.storage.search import (
    ChunksWithTurns,
    Distances,
    Filter,
    Nearest,
    SearchStorage,
    SearchWords,
    Steps,
    TermCounts,
    Texts,
    WithTurns,
    WordResults,
)
from agentctx.storage.sqlite.connections import SqliteConnections, SqlitePart, reads
from agentctx.storage.sqlite.search import fts, search, vector_search
from agentctx.storage.sqlite.search.keyword_search import FindPostings
from agentctx.storage.sqlite.search.memory_search import TokenHashes
from agentctx.storage.sqlite.search.postings import WordPostings
from agentctx.storage.sqlite.upkeep.word_rebuild import UNREADABLE
from agentctx.storage.sqlite.vectors.vector_caches import VectorCaches
from agentctx.storage.sqlite.vectors.verified_vectors import VerifiedVectors
from agentctx.storage.vectors import Vectors

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WordSource:
    """Where one visit finds words; it calls `damaged` if the index cannot be read."""

    hashes: TokenHashes
    in_memory: FindPostings
    damaged: Callable[[], None]

    def readable(self, read: Callable[[], T], otherwise: T) -> T:
        """Return what is read, or `otherwise` if the index is damaged."""
        try:
            return read()
        except Error as error:
            if not isinstance(translated(error), StorageCorrupt):
                raise
            self.damaged()
            return otherwise


def follow(
    conn: Connection,
    begin: Callable[[], Steps[T]],
    space: int | None,
    *,
    now: int,
    faults: Faults,
    caches: VectorCaches,
    verified: VerifiedVectors | None,
    words: WordSource,
) -> T:
    """Return the result of the steps. `verified` measures the vectors of the space."""

    @cache
    def postings(*_: object) -> WordPostings | None:
        return words.readable(lambda: words.in_memory(conn, fts.corpus(conn)), None)

    def by_words(question: str, wanted: Filter, limit: int) -> WordResults:
        find = partial(search.by_words, now=now, hashes=words.hashes, in_memory=postings)
        return words.readable(
            partial(find, conn, question, wanted, limit), WordResults([], TermCounts(0, {}))
        )

    def with_turns(*asked: Any) -> ChunksWithTurns:
        return search.chunks_with_turns(
            conn, *asked, measure=measure, now=now, postings=postings(), hashes=words.hashes
        )

    reads: dict[type, Callable[..., Any]] = {
        SearchWords: by_words,
        WithTurns: with_turns,
        Texts: partial(search.resolve, conn, now=now, faults=faults),
    }
    measure = None
    if space is not None and verified is not None:
        measure = reads[Distances] = partial(
            vector_search.rounded_distances, conn, space, faults=faults, caches=caches, verified=verified
        )
        reads[Nearest] = partial(
            vector_search.by_vector, conn, space, now=now, faults=faults, caches=caches, verified=verified
        )
    steps = begin()
    try:
        read = next(steps)
        while True:
            read = steps.send(reads[type(read)](*read))
    except StopIteration as finished:
        result: T = finished.value
        return result


class SqliteSearch(SqlitePart, SearchStorage):
    """`SearchStorage` on the SQLite file."""

    def __init__(self, connections: SqliteConnections) -> None:
        super().__init__(connections)
        self._hashes = TokenHashes()

    async def by_words(self, question: str, wanted: Filter, limit: int) -> WordResults:
        try:
            found = await self.db.read(
                search.by_words,
                question=question,
                wanted=wanted,
                limit=limit,
                now=self.db.clock(),
                hashes=self._hashes,
                in_memory=self._in_memory(),
            )
        except StorageCorrupt:
            self._damaged()
            raise
        self.db.postings.refresh_soon()
        return found

    def _in_memory(self) -> FindPostings:
        return partial(self.db.postings.of, reports=self.db.postings.reports)

    def _damaged(self) -> None:
        self.db.keyword_gap = UNREADABLE

    async def distances(self, space: int, query: Vectors, chunks: Sequence[int]) -> dict[int, float]:
        return await self.db.read(
            vector_search.distances,
            query=query,
            chunks=chunks,
            faults=self.db.faults,
            verified=self.db.caches.verified(space),
        )

    async def follow(self, begin: Callable[[], Steps[T]], space: int | None) -> T:
        result = await self.db.read(
            follow,
            begin=begin,
            space=space,
            now=self.db.clock(),
            faults=self.db.faults,
            caches=self.db.caches,
            verified=None if space is None else self.db.caches.verified(space),
            words=WordSource(self._hashes, self._in_memory(), self._damaged),
        )
        self.db.postings.refresh_soon()
        if space is not None:
            self.db.caches.refresh_soon(space)
        return result

    async def newest(self, wanted: Filter, limit: int) -> list[tuple[int, str]]:
        return await self.db.read(search.newest, wanted=wanted, limit=limit, now=self.db.clock())

    count_entries = reads(search.count_entries)
    sample_chunks = reads(search.sample)

    @property
    def has_words_in_memory(self) -> bool:
        return self.db.postings.is_whole

    @property
    def keyword_gap(self) -> str | None:
        return self.db.keyword_gap
