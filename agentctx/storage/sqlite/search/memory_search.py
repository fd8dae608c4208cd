"""Keyword search over the postings in memory: exact scores of all chunks, without a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from agentctx.storage import bm25
from agentctx.storage.file.driver import Connection
from agentctx.storage.search import Filter
from agentctx.storage.sqlite.search import filters, fts
from agentctx.storage.sqlite.search.fts import Corpus, KnownTerm
from agentctx.storage.sqlite.search.postings import WordPostings
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
        known = self._known
        if missing := [text for text in texts if hash(text) not in known]:
            if len(known) > MAX_REMEMBERED:
                self._known = known = {}
            for text, tokens in zip(missing, fts.tokens_of(conn, missing), strict=True):
                known[hash(text)] = tuple(map(hash, tokens))
        return [known[hash(text)] for text in texts]


def known_terms(
    conn: Connection, terms: Sequence[Term], postings: WordPostings, hashes: TokenHashes
) -> list[KnownTerm]:
    """Return the terms that have tokens, with the hashes of these."""
    tokens = hashes.of(conn, [term.text for term in terms])
    words = list(dict.fromkeys(word for each in tokens for word in each))
    counts = dict(zip(words, postings.frequencies(words), strict=True))
    return [
        KnownTerm(
            term,
            each,
            fts.count_matching(conn, term) if term.forms else min(map(counts.__getitem__, each)),
        )
        for term, each in zip(fts.divided(conn, terms), tokens, strict=True)
        if each
    ]


def by_score(
    conn: Connection, terms: Sequence[KnownTerm], wanted: Filter, corpus: Corpus, postings: WordPostings
) -> Iterator[tuple[int, float]]:
    """Yield the chunks of the scope that have any of the terms, with their scores, best first."""
    matching = postings.matching(wanted.namespace, wanted.collections, wanted.session)
    scope = filters.scope_groups(wanted) if np.count_nonzero(matching) <= SMALL_SCOPE else []
    rated = []
    for known in terms:
        if known.is_token:
            found = postings.occurrences(known.tokens[0])
            having = len(found.slots)
        else:
            found = postings.among(fts.newest_matching(conn, known.term, scope, MAX_LISTED))
            having = known.chunks if known.term.forms else fts.count_matching(conn, known.term)
        rated.append((found, bm25.rarity(corpus.chunks, having)))
    return postings.ranked(rated, corpus.mean_length, matching)
