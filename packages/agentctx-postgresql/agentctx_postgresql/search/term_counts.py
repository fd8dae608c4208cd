"""Estimates how common the terms of a question are and how large a namespace is.

Uses PostgreSQL's statistics for common terms: rows with our own counts would serialise all saves.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from agentctx.storage.search import Filter, TermCounts
from agentctx.storage.words import question_terms
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.search import terms
from agentctx_postgresql.search.hits import matches_more_than
from agentctx_postgresql.search.terms import QuestionTerm

MAX_COUNTED: Final = 2_000
"""Up to this many chunks are counted, in total and per term; beyond that, statistics are used."""
CACHED_S: Final = 60.0

_COUNTS: Final = """SELECT (SELECT count(*) FROM (SELECT 1 FROM chunk_words LIMIT $2) counted),
    ARRAY(SELECT (SELECT count(*) FROM
        (SELECT 1 FROM chunk_words WHERE words @@ asked.query LIMIT $3) counted)
      FROM unnest($1::text[]::tsquery[]) WITH ORDINALITY AS asked (query, place) ORDER BY place)"""
_STATISTICS: Final = """SELECT reltuples::bigint, most_common_elems::text::text[], most_common_elem_freqs
    FROM pg_class LEFT JOIN pg_stats ON tablename = 'chunk_words' AND attname = 'words'
      AND (quote_ident(schemaname) || '.chunk_words')::regclass = pg_class.oid
    WHERE pg_class.oid = 'chunk_words'::regclass"""


class QueryCounts(NamedTuple):
    """The number of chunks in all namespaces, and how many of them match each `QuestionTerm.query`."""

    chunks: int
    matching: Mapping[str, int]


class CommonTerms:
    """The number of chunks with words, and the share of them that contains each of the most common terms.

    From the last ANALYZE once there are `MAX_COUNTED` chunks. Refreshed once a minute, like the sizes of
    namespaces.
    """

    def __init__(self) -> None:
        self._chunks = 0
        self._shares: Mapping[str, float] = {}
        self._until = 0.0
        self._is_large: dict[str, bool] = {}

    async def counts(self, conn: Connection, asked: Iterable[QuestionTerm]) -> QueryCounts:
        """Count the chunks that contain each term, in one statement except when statistics are refreshed."""
        is_stale = time.monotonic() >= self._until
        shares = {} if is_stale else self._shares
        by_query = {term.query: term for term in asked}
        rest = [query for query, term in by_query.items() if _share(shares, term) is None]
        chunks, counted = 0, []
        if is_stale or rest:
            chunks, counted = await conn.fetchrow(_COUNTS, rest, MAX_COUNTED * is_stale, MAX_COUNTED)
        if is_stale:
            shares = await self._refresh(conn, chunks)
        estimated = {
            query: round(share * self._chunks)
            for query, term in by_query.items()
            if (share := _share(shares, term)) is not None
        }
        return QueryCounts(self._chunks, dict(zip(rest, counted, strict=True)) | estimated)

    async def _refresh(self, conn: Connection, chunks: int) -> Mapping[str, float]:
        """Set the number of chunks, and read the statistics if not all chunks were counted.

        The sizes of namespaces are asked for again.
        """
        self._chunks, self._shares = chunks, {}
        self._is_large.clear()
        if chunks >= MAX_COUNTED:
            estimate, tokens, shares = await conn.fetchrow(_STATISTICS)
            self._chunks = max(chunks, estimate)
            self._shares = dict(zip(tokens or (), shares or (), strict=False))
            self._until = time.monotonic() + CACHED_S
        return self._shares

    async def is_large(self, conn: Connection, namespace: str, small: int, *, now: int) -> bool:
        """Return whether a namespace has more than `small` entries, or had a minute ago."""
        if namespace in self._is_large:
            return self._is_large[namespace]
        is_large = await matches_more_than(conn, Filter(namespace=namespace), small, now=now)
        self._is_large[namespace] = is_large
        return is_large


def _share(shares: Mapping[str, float], term: QuestionTerm) -> float | None:
    """Return the known share of a term. Statistics exist only for single tokens."""
    return shares.get(term.tokens[0]) if term.is_token else None


def with_tokens(asked: Sequence[QuestionTerm]) -> list[QuestionTerm]:
    """Return the terms, and those of their single tokens, whose counts `term_counts` needs."""
    return [*asked, *(terms.token_term(token) for term in asked for token in term.tokens)]


def term_counts(question: str, asked: Sequence[QuestionTerm], counts: QueryCounts) -> TermCounts:
    """Return how many chunks contain each term of a question (or all words of a phrase), and the total."""
    having = dict.fromkeys((term.text for term in question_terms(question)), 0)
    for term in asked:
        parts = [term] if term.forms else map(terms.token_term, term.tokens)
        having[term.term.text] = min(counts.matching[part.query] for part in parts)
    return TermCounts(chunks=counts.chunks, counts=having)
