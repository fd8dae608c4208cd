"""Keyword search over the postings in memory: exact scores of all chunks, without a budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import numpy as np

from agentctx.storage import bm25
from agentctx.storage.bm25 import Corpus
from agentctx.storage.file.driver import Connection
from agentctx.storage.passage_traits import WordFinder
from agentctx.storage.search import Filter
from agentctx.storage.sqlite.search import filters, fts
from agentctx.storage.sqlite.search.fts import KnownTerm, Scope
from agentctx.storage.sqlite.search.postings import Occurrences, WordPostings
from agentctx.storage.words import Term

MAX_LISTED: Final = 40_000
"""How many chunks FTS5 lists of a term that is not a single word; if more have it, the newest."""
SMALL_SCOPE: Final = 10_000
"""Up to this size, FTS5 intersects a scope with such a term."""
MAX_REMEMBERED: Final = 20_000


class TokenHashes:
    """Remembers the tokens of terms, both by hash: no word of a question stays in memory. For any thread."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, ...]] = {}

    def of(self, conn: Connection, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the hashes of the tokens of each text."""
        if len(self._known) > MAX_REMEMBERED:
            self._known = {}
        known = self._known
        if missing := [text for text in texts if hash(text) not in known]:
            for text, tokens in zip(missing, fts.tokens_of(conn, missing), strict=True):
                known[hash(text)] = tuple(map(hash, tokens))
        return [known[hash(text)] for text in texts]


class MemorySearch:
    """One question, asked of the postings."""

    def __init__(
        self, conn: Connection, asked: Sequence[Term], postings: WordPostings, hashes: TokenHashes
    ) -> None:
        self._conn = conn
        self._postings = postings
        tokens = hashes.of(conn, [term.text for term in asked])
        words = list(dict.fromkeys(chain.from_iterable(tokens)))
        self._found = dict(zip(words, postings.occurrences(words), strict=True))
        terms = zip(fts.divided(conn, asked), tokens, strict=True)
        self.terms = [KnownTerm(term, each, self._count(term, each)) for term, each in terms if each]
        """The terms that have tokens, with the hashes of these."""

    def _count(self, term: Term, tokens: Sequence[int]) -> int:
        if term.forms:
            return fts.count_matching(self._conn, term)
        return min(len(self._found[token].slots) for token in tokens)

    def by_score(
        self, terms: Sequence[KnownTerm], wanted: Filter, corpus: Corpus
    ) -> Iterator[tuple[int, float]]:
        """Yield the chunks of the scope that have any of the terms, with their scores, best first."""
        matching = self._postings.matching(wanted.namespace, wanted.collections, wanted.session)
        scope = filters.scope_groups(wanted) if np.count_nonzero(matching) <= SMALL_SCOPE else []
        rated = []
        for known in terms:
            found, having = self._having(known, scope)
            rated.append((found, bm25.rarity(corpus.chunks, having)))
        return self._postings.ranked(rated, corpus.mean_length, matching)

    def _having(self, known: KnownTerm, scope: Scope) -> tuple[Occurrences, int]:
        """Return the chunks that have a term, and how many of all namespaces have it."""
        if known.is_token:
            return self._found[known.tokens[0]], known.chunks
        listed = fts.newest_matching(self._conn, known.term, scope, MAX_LISTED)
        having = known.chunks if known.term.forms else fts.count_matching(self._conn, known.term)
        return self._postings.among(listed), having


def words_in_each(
    conn: Connection, postings: WordPostings, hashes: TokenHashes, words: WordFinder, chunks: Iterable[int]
) -> dict[int, frozenset[str]]:
    """Return which of the words each chunk has; nothing if only its text can tell."""
    spellings = words.spellings
    if spellings is None:
        return {}
    spelled = [(word, each) for word, every in spellings.items() for each in every]
    if not spelled:
        return dict.fromkeys(chunks, frozenset[str]())
    tokens = hashes.of(conn, [each for _, each in spelled])
    columns = {token: at for at, token in enumerate(dict.fromkeys(chain.from_iterable(tokens)))}
    ordered = sorted(chunks)
    found = postings.has(ordered, list(columns))
    has = np.stack([found[:, [columns[token] for token in each]].all(axis=1) & bool(each) for each in tokens])
    patterns = [*map(bytes, has.T)]
    sets = {
        each: frozenset(spelled[at][0] for at, is_found in enumerate(each) if is_found)
        for each in {*patterns}
    }
    return {chunk: sets[pattern] for chunk, pattern in zip(ordered, patterns, strict=True)}
