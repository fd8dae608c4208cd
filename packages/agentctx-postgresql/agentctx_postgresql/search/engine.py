"""Keyword and vector search, and the current text of the hits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from agentctx.storage.search import Filter, NearestChunk, ResolvedChunk, Steps, WordResults
from agentctx.storage.vectors import Vectors
from agentctx_postgresql.connections import PostgresqlConnections, PostgresqlPart, queries
from agentctx_postgresql.search import keyword_search, search, steps, vector_search
from agentctx_postgresql.search.term_counts import CommonTerms
from agentctx_postgresql.vectors.nearest_index import CompleteIndexes

T = TypeVar("T")


class PostgresqlSearch(PostgresqlPart):
    """`SearchStorage` on a PostgreSQL server."""

    def __init__(self, connections: PostgresqlConnections) -> None:
        super().__init__(connections)
        self._common = CommonTerms()
        self._indexes = CompleteIndexes()

    async def by_words(self, question: str, wanted: Filter, limit: int) -> WordResults:
        now, common = self.db.clock(), self._common
        return await self.db.query(
            lambda conn: keyword_search.by_words(conn, common, question, wanted, limit, now=now)
        )

    async def by_vector(self, space: int, query: Vectors, wanted: Filter, limit: int) -> list[NearestChunk]:
        now, indexes = self.db.clock(), self._indexes
        return await self.db.query(
            lambda conn: vector_search.by_vector(conn, indexes, space, query, wanted, limit, now=now)
        )

    async def resolve(self, chunks: Sequence[int], wanted: Filter) -> dict[int, ResolvedChunk]:
        now, faults = self.db.clock(), self.db.faults
        return await self.db.query(lambda conn: search.resolve(conn, chunks, wanted, now=now, faults=faults))

    async def follow(self, begin: Callable[[], Steps[T]], space: int | None) -> T:
        now, faults, indexes = self.db.clock(), self.db.faults, self._indexes
        return await self.db.query(
            lambda conn: steps.follow(conn, begin, space, now=now, faults=faults, indexes=indexes)
        )

    distances = queries(vector_search.distances)
    count_entries = queries(search.count_entries)
    sample_chunks = queries(search.sample)

    @property
    def words_shortfall(self) -> str | None:
        """Always None, because words are rows of a table and change together with their chunk."""
        return None
