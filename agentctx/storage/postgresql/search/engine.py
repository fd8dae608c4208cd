"""Questions against the words and the vectors, and the present text of what they find."""

from __future__ import annotations

from collections.abc import Sequence

from agentctx.embedding_providers.base import Vectors
from agentctx.storage.postgresql.connections import PostgresqlConnections, PostgresqlPart, reads
from agentctx.storage.postgresql.search import keyword_search, search, term_counts, vector_search
from agentctx.storage.postgresql.search.term_counts import CommonTerms
from agentctx.storage.records import (
    Filter,
    Near,
    NearestChunk,
    ResolvedChunk,
    TermCounts,
    WithTurns,
    WordHit,
)


class PostgresqlSearch(PostgresqlPart):
    """`SearchStorage` on a PostgreSQL server."""

    def __init__(self, connections: PostgresqlConnections) -> None:
        super().__init__(connections)
        self._common = CommonTerms()

    async def by_words(self, question: str, wanted: Filter, limit: int) -> list[WordHit]:
        now = self.db.clock()
        return await self.db.read(
            lambda conn: keyword_search.by_words(conn, self._common, question, wanted, limit, now=now)
        )

    async def term_counts(self, question: str) -> TermCounts:
        return await self.db.read(lambda conn: term_counts.term_counts(conn, self._common, question))

    async def by_vector(self, space: int, query: Vectors, wanted: Filter, limit: int) -> list[NearestChunk]:
        now = self.db.clock()
        return await self.db.read(
            lambda conn: vector_search.by_vector(conn, space, query, wanted, limit, now=now)
        )

    async def resolve(self, chunks: Sequence[int], wanted: Filter) -> dict[int, ResolvedChunk]:
        now, faults = self.db.clock(), self.db.faults
        return await self.db.read(lambda conn: search.resolve(conn, chunks, wanted, now=now, faults=faults))

    async def resolve_with_turns(
        self, chunks: Sequence[int], wanted: Filter, near: Near | None = None
    ) -> WithTurns:
        now, faults = self.db.clock(), self.db.faults
        return await self.db.read(
            lambda conn: search.resolve_with_turns(conn, chunks, wanted, near, now=now, faults=faults)
        )

    distances = reads(vector_search.distances)
    count_entries = reads(search.count_entries)
    sample_chunks = reads(search.sample)

    @property
    def words_shortfall(self) -> str | None:
        """None: words are rows of a table, and change with their chunk."""
        return None
