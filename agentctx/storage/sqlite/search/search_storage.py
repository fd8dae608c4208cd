"""Searches by words and by vectors: all reads of a question, decided on between them, in one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from agentctx.errors import StorageCorrupt
from agentctx.storage.faults import Faults
from agentctx.storage.file.driver import Connection
from agentctx.storage.search import (
    Distances,
    Filter,
    Nearest,
    NearestChunk,
    ResolvedChunk,
    Steps,
    Texts,
    WithTurns,
    WordResults,
)
from agentctx.storage.sqlite.connections import SqliteConnections, SqlitePart, reads
from agentctx.storage.sqlite.search import search, vector_search
from agentctx.storage.sqlite.search.keyword_search import Statistics
from agentctx.storage.sqlite.upkeep.word_rebuild import UNREADABLE
from agentctx.storage.sqlite.vectors.vector_caches import VectorCaches
from agentctx.storage.sqlite.vectors.verified_vectors import VerifiedVectors
from agentctx.storage.vectors import Vectors

T = TypeVar("T")


def follow(
    conn: Connection,
    begin: Callable[[], Steps[T]],
    space: int | None,
    *,
    now: int,
    faults: Faults,
    caches: VectorCaches,
    verified: VerifiedVectors | None,
) -> T:
    """Return the result of the steps. `verified` measures the vectors of the space."""
    reads: dict[type, Callable[..., Any]] = {Texts: partial(search.resolve, conn, now=now, faults=faults)}
    measure = None
    if space is not None and verified is not None:
        measure = reads[Distances] = partial(
            vector_search.rounded_distances, conn, space, faults=faults, caches=caches, verified=verified
        )
        reads[Nearest] = partial(
            vector_search.by_vector, conn, space, now=now, faults=faults, caches=caches, verified=verified
        )
    reads[WithTurns] = partial(search.chunks_with_turns, conn, measure=measure, now=now)
    steps, answer = begin(), None
    while True:
        try:
            read = steps.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        answer = reads[type(read)](*read)


class SqliteSearch(SqlitePart):
    """`SearchStorage` on the SQLite file."""

    def __init__(self, connections: SqliteConnections) -> None:
        super().__init__(connections)
        self._statistics = Statistics()

    async def by_words(self, question: str, wanted: Filter, limit: int) -> WordResults:
        try:
            found = await self.db.read(
                search.by_words,
                question=question,
                wanted=wanted,
                limit=limit,
                now=self.db.clock(),
                statistics=self._statistics,
                in_memory=partial(self.db.postings.of, reports=self.db.postings.reports),
            )
        except StorageCorrupt:
            self.db.keyword_gap = UNREADABLE
            raise
        self.db.postings.refresh_soon()
        return found

    async def by_vector(self, space: int, query: Vectors, wanted: Filter, limit: int) -> list[NearestChunk]:
        hits = await self.db.read(
            vector_search.by_vector,
            space=space,
            query=query,
            wanted=wanted,
            limit=limit,
            now=self.db.clock(),
            faults=self.db.faults,
            caches=self.db.caches,
            verified=self.db.caches.verified(space),
        )
        self.db.caches.refresh_soon(space)
        return hits

    async def distances(self, space: int, query: Vectors, chunks: Sequence[int]) -> dict[int, float]:
        return await self.db.read(
            vector_search.distances,
            query=query,
            chunks=chunks,
            faults=self.db.faults,
            verified=self.db.caches.verified(space),
        )

    async def resolve(self, chunks: Sequence[int], wanted: Filter) -> dict[int, ResolvedChunk]:
        return await self.db.read(
            search.resolve, chunks=chunks, wanted=wanted, now=self.db.clock(), faults=self.db.faults
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
        )
        if space is not None:
            self.db.caches.refresh_soon(space)
        return result

    async def newest(self, wanted: Filter, limit: int) -> list[tuple[int, str]]:
        return await self.db.read(search.newest, wanted=wanted, limit=limit, now=self.db.clock())

    count_entries = reads(search.count_entries)
    sample_chunks = reads(search.sample)

    @property
    def keyword_gap(self) -> str | None:
        return self.db.keyword_gap
