"""Keyword search: BM25 over the chunks that contain the rarer terms of a question.

Connections must not be in a transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from enum import Enum, auto
from functools import partial
from itertools import accumulate
from typing import Final, NamedTuple

from agentctx.storage import bm25
from agentctx.storage.search import Filter, WordHit, WordResults
from agentctx_postgresql.driver import Connection, in_snapshot
from agentctx_postgresql.search import terms
from agentctx_postgresql.search.filters import Parameters, is_whole_namespace, quoted
from agentctx_postgresql.search.hits import CUSTOM_PLANS, first_hits, matches_more_than
from agentctx_postgresql.search.term_counts import (
    CommonTerms,
    QueryCounts,
    term_counts,
    with_tokens,
)
from agentctx_postgresql.search.terms import QuestionTerm

MAX_TERMS: Final = 24
"""Maximum number of terms used; the rarest find the same passages as all of them."""
MAX_CANDIDATES: Final = 2_000
"""Maximum number of chunks to score; five times as many do not improve the best ten (nDCG on SciFact). Chunks
with only the most common words of a question are left to vector search."""

SMALL_SCOPE: Final = 1_000
"""Up to this many entries, every entry with any of the terms is scored."""

_RANKED: Final = "(SELECT chunk, {score} AS value FROM chunk_words WHERE words @@ {query}::tsquery{rest})"
_OF_NAMESPACE: Final = " AND namespace = {namespace} ORDER BY 2 DESC, 1"
"""An ordered subquery is computed first, so that entries are read only for the best chunks."""
_WEIGHED: Final = "-(weights <#> {rarities}::sparsevec)"
_PHRASES: Final = """ + (SELECT coalesce(sum(phrase.rarity), 0) FROM unnest({queries}::text[]::tsquery[],
    {rarities}::float8[]) AS phrase (query, rarity) WHERE words @@ phrase.query)"""


class _Size(Enum):
    """The sizes of a namespace and of the part of it that matches the filter."""

    SMALL = auto()
    LARGE = auto()
    SMALL_IN_LARGE = auto()


class _RankedTerm(NamedTuple):
    """A term, the number of chunks that contain it, and its rarity."""

    term: QuestionTerm
    chunks: int
    rarity: float


async def by_words(
    conn: Connection, common: CommonTerms, question: str, wanted: Filter, limit: int, *, now: int
) -> WordResults:
    """Return the best BM25 hits, none for a question without words, and the frequency of its terms."""
    asked = terms.terms_of(question)
    counts = await common.counts(conn, with_tokens(asked))
    hits = await _hits(conn, common, _ranked_terms(asked, counts), counts.chunks, wanted, limit, now=now)
    return WordResults(hits, term_counts(question, asked, counts))


async def _hits(
    conn: Connection,
    common: CommonTerms,
    ranked_terms: Sequence[_RankedTerm],
    chunks: int,
    wanted: Filter,
    limit: int,
    *,
    now: int,
) -> list[WordHit]:
    if not ranked_terms:
        return []
    size = await _size(conn, common, chunks, wanted, now=now)
    parameters = Parameters()
    ranked = _ranked_sql(ranked_terms, parameters, wanted.namespace, size)
    first = partial(
        first_hits, conn, WordHit, ranked, parameters, wanted, order="DESC, hit.chunk", limit=limit, now=now
    )
    if size is not _Size.SMALL_IN_LARGE:
        return await first()
    async with in_snapshot(conn, CUSTOM_PLANS):
        return await first()


async def _size(conn: Connection, common: CommonTerms, chunks: int, wanted: Filter, *, now: int) -> _Size:
    if chunks <= SMALL_SCOPE or not await common.is_large(conn, wanted.namespace, SMALL_SCOPE, now=now):
        return _Size.SMALL
    if is_whole_namespace(wanted) or await matches_more_than(conn, wanted, SMALL_SCOPE, now=now):
        return _Size.LARGE
    return _Size.SMALL_IN_LARGE


def _ranked_terms(asked: Sequence[QuestionTerm], counts: QueryCounts) -> list[_RankedTerm]:
    """Return the terms that occur in any chunk, at most `MAX_TERMS`, rarest first."""
    ranked_terms = [
        _RankedTerm(term, having, bm25.rarity(counts.chunks, having))
        for term in asked
        if (having := counts.matching[term.query])
    ]
    return sorted(ranked_terms, key=lambda each: each.chunks)[:MAX_TERMS]


def _ranked_sql(
    ranked_terms: Sequence[_RankedTerm], parameters: Parameters, namespace: str, size: _Size
) -> str:
    """Return an SQL table of the chunks with any of the terms, scored by all of them."""
    score = _score(ranked_terms, parameters)
    sought = _rarest(ranked_terms) if size is _Size.LARGE else ranked_terms
    query = parameters.add(terms.any_of(each.term for each in sought))
    rest = "" if size is _Size.SMALL_IN_LARGE else _OF_NAMESPACE.format(namespace=quoted(namespace))
    return _RANKED.format(score=score, query=query, rest=rest)


def _rarest(ranked_terms: Sequence[_RankedTerm]) -> Sequence[_RankedTerm]:
    """Return the first terms with together at most `MAX_CANDIDATES` chunks; at least one term."""
    sums = accumulate(each.chunks for each in ranked_terms)
    return ranked_terms[: max(1, sum(total <= MAX_CANDIDATES for total in sums))]


def _score(ranked_terms: Sequence[_RankedTerm], parameters: Parameters) -> str:
    tokens: defaultdict[str, float] = defaultdict(float)
    phrases = [each for each in ranked_terms if not each.term.is_token]
    for each in ranked_terms:
        if each.term.is_token:
            tokens[each.term.tokens[0]] += each.rarity
    score = _WEIGHED.format(rarities=parameters.add(terms.rarities(tokens)))
    if not phrases:
        return score
    return score + _PHRASES.format(
        queries=parameters.add([each.term.query for each in phrases]),
        rarities=parameters.add([each.rarity for each in phrases]),
    )
