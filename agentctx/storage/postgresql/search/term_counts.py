"""How common the terms of a question are. Read transactions only.

PostgreSQL's own statistics know the common terms; rows with our own counts would serialise all saves.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.postgresql.search import terms
from agentctx.storage.postgresql.search.terms import QuestionTerm
from agentctx.storage.records import TermCounts
from agentctx.storage.words import question_terms

COUNTED: Final = 2_000
"""Up to this many chunks are counted, in total and for each term; beyond it, statistics are used."""
KNOWN_FOR_S: Final = 60.0

_CHUNKS: Final = "SELECT count(*) FROM (SELECT 1 FROM chunk_words LIMIT $1) counted"
_ESTIMATE: Final = "SELECT reltuples::bigint FROM pg_class WHERE oid = 'chunk_words'::regclass"
_COMMON: Final = """SELECT most_common_elems::text::text[], most_common_elem_freqs FROM pg_stats
    WHERE (quote_ident(schemaname) || '.chunk_words')::regclass = 'chunk_words'::regclass
      AND tablename = 'chunk_words' AND attname = 'words'"""
_COUNTS: Final = """SELECT (SELECT count(*) FROM
      (SELECT 1 FROM chunk_words WHERE words @@ asked.query LIMIT $2) counted)
    FROM unnest($1::text[]::tsquery[]) WITH ORDINALITY AS asked (query, place) ORDER BY place"""


class CommonTerms:
    """The share of chunks that have each of the most common terms, from the last ANALYZE."""

    def __init__(self) -> None:
        self._shares: Mapping[str, float] = {}
        self._until = 0.0

    async def shares(self, conn: Connection) -> Mapping[str, float]:
        """Return the shares; empty for a small or new table."""
        if time.monotonic() >= self._until:
            row = await conn.fetchrow(_COMMON)
            known = row is not None and row[0] is not None
            self._shares = dict(zip(row[0], row[1], strict=False)) if known else {}
            self._until = time.monotonic() + KNOWN_FOR_S
        return self._shares


async def count_chunks(conn: Connection) -> int:
    """Return the number of chunks with words, in all namespaces."""
    counted = int(await conn.fetchval(_CHUNKS, COUNTED))
    return counted if counted < COUNTED else max(counted, await conn.fetchval(_ESTIMATE))


async def count_each(
    conn: Connection, common: CommonTerms, asked: Sequence[QuestionTerm], chunks: int
) -> list[int]:
    """Return how many of `chunks` have each term. Only tokens are looked up in the statistics."""
    shares = await common.shares(conn) if chunks >= COUNTED else {}
    known = [shares.get(term.tokens[0]) if term.is_token else None for term in asked]
    rest = [term.query for term, share in zip(asked, known, strict=True) if share is None]
    counted = iter(await conn.fetch(_COUNTS, rest, COUNTED) if rest else ())
    return [next(counted)[0] if share is None else round(share * chunks) for share in known]


async def term_counts(conn: Connection, common: CommonTerms, question: str) -> TermCounts:
    """Return how many chunks have each term of a question, or at least all of its words, and the total."""
    chunks = await count_chunks(conn)
    counts = dict.fromkeys((term.text for term in question_terms(question)), 0)
    asked = terms.terms_of(question)
    tokens = list(dict.fromkeys(token for term in asked for token in term.tokens))
    having = dict(
        zip(tokens, await count_each(conn, common, list(map(terms.of_token, tokens)), chunks), strict=True)
    )
    counts |= {term.term.text: min(having[token] for token in term.tokens) for term in asked}
    return TermCounts(chunks=chunks, counts=counts)
