"""Keyword search: the best chunks by BM25, from the postings in memory (`memory_search`) or, while there are
none, from FTS5 within a budget of postings. Read transactions only.

FTS5 ranks every chunk that has any of the words, at 2.4 µs each. So the chunks of each term are only listed
(.1 µs each), rarest terms first, and the most promising ones are scored, with all terms.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

import numpy as np

from agentctx.storage import bm25
from agentctx.storage.bm25 import Corpus, Numbers, Postings
from agentctx.storage.file.driver import Connection
from agentctx.storage.search import Filter, TermCounts, WordHit
from agentctx.storage.sqlite.search import filters, fts
from agentctx.storage.sqlite.search.filters import Condition
from agentctx.storage.sqlite.search.fts import KnownTerm, Scope
from agentctx.storage.sqlite.search.memory_search import MemorySearch, TokenHashes
from agentctx.storage.sqlite.search.postings import WordPostings
from agentctx.storage.words import question_terms

FindPostings: TypeAlias = Callable[[Connection, Corpus], WordPostings | None]
"""Returns the postings in memory, if they are those of the snapshot with these totals."""

MAX_POSTINGS: Final = 40_000
"""Listing this many takes 5 ms. Chunks with only the commonest words of a question are left to meaning."""
SMALL_SCOPE: Final = 10_000
"""Up to this size, FTS5 intersects a scope with each term: faster than listing a common term."""
SMALL_SHARE: Final = 0.5
"""Share of all chunks up to which a scope is used, unless the budget is too small for all namespaces."""
SCORED: Final = 160
"""Chunks scored at once: they include 99.7 % of FTS5's best ten, even if it would rank thousands."""
SCORED_BY_LOOKUP: Final = 96
"""The same if the occurrences of a term have to be counted in each chunk."""
PRESENT_AT_ONCE: Final = 40
_PRESENT: Final = """SELECT chunks.id, e.id, chunks.cue FROM json_each(?) hit
    CROSS JOIN chunks ON chunks.id = hit.value CROSS JOIN entries e ON e.seq = chunks.entry WHERE """


@dataclass(frozen=True, slots=True)
class _Question:
    """The terms of a question, the chunks listed for them, and the terms whose counts are exact."""

    terms: Sequence[KnownTerm]
    postings: Sequence[Postings]
    counted: frozenset[int]
    """Numbers of the terms whose postings contain every chunk and every occurrence."""


def hits_by_words(
    conn: Connection,
    question: str,
    wanted: Filter,
    *,
    now: int,
    hashes: TokenHashes,
    in_memory: FindPostings,
) -> tuple[Callable[[int], list[WordHit]], TermCounts]:
    """Return a function for the first `count` hits on texts and cues, best first, and the term counts."""
    asked, corpus = question_terms(question), fts.corpus(conn)
    scored: Iterator[tuple[int, float]] = iter(())
    if (postings := in_memory(conn, corpus)) is not None:
        search = MemorySearch(conn, asked, postings, hashes)
        known_terms = search.terms
        if terms := fts.searched(known_terms):
            scored = search.by_score(terms, wanted, corpus)
    else:
        known_terms = fts.known_terms(conn, asked)
        terms = fts.searched(known_terms)
    if postings is None and terms and all(scope := _scope(conn, wanted)):
        scored = _by_score(conn, _listed(conn, terms, scope, corpus), corpus)
    hits = _present(conn, scored, filters.entry_condition(wanted, now=now))
    known: list[WordHit] = []

    def first(count: int) -> list[WordHit]:
        known.extend(islice(hits, max(0, count - len(known))))
        return known[:count]

    return first, fts.term_counts(asked, known_terms, corpus.chunks)


def _by_score(conn: Connection, question: _Question, corpus: Corpus) -> Iterator[tuple[int, float]]:
    """Yield chunks with their scores, best first within each group that is scored at once."""
    size = SCORED if len(question.counted) == len(question.terms) else SCORED_BY_LOOKUP
    for pool in bm25.approximate_ranking(question.postings, size):
        scores = _scored(conn, question, pool, corpus).tolist()
        yield from sorted(zip(pool.tolist(), scores, strict=True), key=lambda hit: (-hit[1], hit[0]))


def _present(
    conn: Connection, scored: Iterator[tuple[int, float]], condition: Condition
) -> Iterator[WordHit]:
    """Yield the chunks that match the condition, in order; `cue` says that the chunk is a cue."""
    while batch := dict(islice(scored, PRESENT_AT_ONCE)):
        rows = conn.execute(_PRESENT + condition.sql, (json.dumps(list(batch)), *condition.parameters))
        present = {chunk: (entry, bool(cue)) for chunk, entry, cue in rows.fetchall()}
        for chunk in filter(present.__contains__, batch):
            entry, is_cue = present[chunk]
            yield WordHit(chunk, entry, batch[chunk], is_cue)


def _scored(conn: Connection, question: _Question, chunks: Numbers, corpus: Corpus) -> bm25.Scores:
    """Return exact scores by all terms."""
    ids = chunks.tolist()
    known = fts.lengths(conn, ids)
    lengths = np.array([known.get(chunk, corpus.mean_length) for chunk in ids]) / max(corpus.mean_length, 1.0)
    rest = [number for number in range(len(question.terms)) if number not in question.counted]
    missing: list[dict[int, int]] = [{} for _ in rest]
    if rest and ids:
        missing = fts.counts_in(conn, [question.terms[number] for number in rest], ids)
    looked_up = dict(zip(rest, missing, strict=True))
    counts = [
        [looked_up[number].get(chunk, 0) for chunk in ids]
        if number in looked_up
        else bm25.counts_of(postings, chunks)
        for number, postings in enumerate(question.postings)
    ]
    return bm25.scores([each.rarity for each in question.postings], np.array(counts, np.float64), lengths)


def _listed(conn: Connection, terms: Sequence[KnownTerm], scope: Scope, corpus: Corpus) -> _Question:
    """List the chunks of the terms, rarest first, until the budget is spent.

    The rarest term is always listed, as far as the budget allows.
    """
    is_affordable = sum(known.chunks for known in terms) <= MAX_POSTINGS
    max_size = min(SMALL_SCOPE, int(SMALL_SHARE * corpus.chunks)) if is_affordable else SMALL_SCOPE
    is_small = any(not fts.is_larger(conn, group, max_size) for group in scope)
    mine = fts.in_scope(conn, scope) if is_small else None
    left = MAX_POSTINGS
    postings, counted = [], set()
    for number, known in enumerate(terms):
        is_counted = known.is_token or known.term.forms
        having = known.chunks if is_counted else fts.count_matching(conn, known.term)
        if known.is_token and having <= left:
            chunks, counts = fts.occurrences(conn, known.tokens[0])
            if mine is not None:
                chunks, counts = bm25.intersect(chunks, counts, mine)
            left -= having
            counted.add(number)
        elif mine is not None:
            chunks = fts.matching(conn, known.term, scope)
            counts = np.ones(len(chunks), np.int64)
        elif not known.is_token or not number:
            chunks = fts.newest_matching(conn, known.term, scope, left)
            counts = np.ones(len(chunks), np.int64)
            left -= len(chunks)
        else:
            chunks = counts = np.empty(0, np.int64)
        postings.append(Postings(chunks, counts, bm25.rarity(corpus.chunks, having)))
    return _Question(terms, postings, frozenset(counted))


def _scope(conn: Connection, wanted: Filter) -> Scope:
    """Return the scope groups that narrow the search; a sole namespace matches every chunk, at a cost."""
    others = conn.execute(
        """SELECT EXISTS (SELECT 1 FROM entries WHERE live = 1 AND namespace < ?)
               OR EXISTS (SELECT 1 FROM entries WHERE live = 1 AND namespace > ?)""",
        (wanted.namespace, wanted.namespace),
    ).fetchone()[0]
    namespace, *narrower = filters.scope_groups(wanted)
    return [namespace, *narrower] if others else narrower
