"""Estimates how common the terms of a question are and how large a namespace is.

Uses PostgreSQL's statistics for common terms: rows with our own counts would serialise all saves.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.postgresql.search import terms
from agentctx.storage.postgresql.search.hits import passes_more
from agentctx.storage.postgresql.search.terms import QuestionTerm
from agentctx.storage.search import Filter, TermCounts
from agentctx.storage.words import question_terms

MAX_COUNTED: Final = 2_000
"""Up to this many chunks are counted, in total and per term; beyond that, statistics are used."""
CACHED_S: Final = 60.0

_CHUNKS: Final = "SELECT count(*) FROM (SELECT 1 FROM chunk_words LIMIT $1) counted"
_STATISTICS: Final = """SELECT reltuples::bigint, most_common_elems::text::text[], most_common_elem_freqs
    FROM pg_class LEFT JOIN pg_stats ON tablename = 'chunk_words' AND attname = 'words'
      AND (quote_ident(schemaname) || '.chunk_words')::regclass = pg_class.oid
    WHERE pg_class.oid = 'chunk_words'::regclass"""
_COUNTS: Final = """SELECT (SELECT count(*) FROM
      (SELECT 1 FROM chunk_words WHERE words @@ asked.query LIMIT $2) counted)
    FROM unnest($1::text[]::tsquery[]) WITH ORDINALITY AS asked (query, place) ORDER BY place"""


class CommonTerms:
    """The number of chunks with words, and the share of them that contains each of the most common terms.

    From the last ANALYZE once there are `MAX_COUNTED` chunks. Refreshed once a minute, like the set of large
    namespaces.
    """

    def __init__(self) -> None:
        self.shares: Mapping[str, float] = {}
        self._chunks = 0
        self._until = 0.0
        self._large_until: dict[str, float] = {}

    async def chunks(self, conn: Connection) -> int:
        """Return the number of chunks in all namespaces. Refreshes `shares`, empty for a small table."""
        if time.monotonic() < self._until:
            return self._chunks
        self.shares = {}
        self._chunks = int(await conn.fetchval(_CHUNKS, MAX_COUNTED))
        if self._chunks >= MAX_COUNTED:
            estimate, tokens, shares = await conn.fetchrow(_STATISTICS)
            self._chunks = max(self._chunks, estimate)
            self.shares = dict(zip(tokens or (), shares or (), strict=False))
            self._until = time.monotonic() + CACHED_S
        return self._chunks

    async def is_large(self, conn: Connection, namespace: str, small: int, *, now: int) -> bool:
        """Return whether a namespace has more than `small` entries."""
        if time.monotonic() < self._large_until.get(namespace, 0.0):
            return True
        is_large = await passes_more(conn, Filter(namespace=namespace), small, now=now)
        if is_large:
            self._large_until[namespace] = time.monotonic() + CACHED_S
        return is_large


async def count_each(
    conn: Connection, common: CommonTerms, asked: Sequence[QuestionTerm], chunks: int
) -> list[int]:
    """Return how many of `chunks` contain each term. Statistics exist only for single tokens."""
    known = [common.shares.get(term.tokens[0]) if term.is_token else None for term in asked]
    rest = [term.query for term, share in zip(asked, known, strict=True) if share is None]
    counted = iter(await conn.fetch(_COUNTS, rest, MAX_COUNTED) if rest else ())
    return [next(counted)[0] if share is None else round(share * chunks) for share in known]


async def term_counts(conn: Connection, common: CommonTerms, question: str) -> TermCounts:
    """Return how many chunks contain each term of a question (or all words of a phrase), and the total."""
    chunks = await common.chunks(conn)
    counts = dict.fromkeys((term.text for term in question_terms(question)), 0)
    asked = terms.terms_of(question)
    tokens = list(dict.fromkeys(token for term in asked for token in term.tokens))
    having = dict(
        zip(tokens, await count_each(conn, common, list(map(terms.token_term, tokens)), chunks), strict=True)
    )
    counts |= {term.term.text: min(having[token] for token in term.tokens) for term in asked}
    return TermCounts(chunks=chunks, counts=counts)
