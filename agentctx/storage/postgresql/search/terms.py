"""Words of chunks and queries for them, as values of `tsvector`, `tsquery` and `sparsevec`. No I/O.

The terms are those of the SQLite engine: the output of FTS5's `porter unicode61` for a text and for its
`index_terms`. PostgreSQL's own parser finds other chunks for over half of the questions with compounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from heapq import nlargest
from itertools import chain
from operator import itemgetter
from typing import Final, NamedTuple
from zlib import crc32

from agentctx.sqlite.tokenizer import MAX_STEMS, Tokenizer
from agentctx.storage.bm25 import K1, B
from agentctx.storage.postgresql.pgvector import DIMENSIONS, encode_sparsevec
from agentctx.storage.words import Term, index_terms, question_terms

MEAN_LENGTH: Final = 100
"""Tokens of a typical chunk, with which BM25 compares the length of each. A constant because weights are
stored: with the actual mean, all weights would have to be rewritten whenever it changes."""
MAX_WEIGHTS: Final = 16_000
"""Maximum number of non-zero weights in a `sparsevec`."""
MAX_CHARACTERS: Final = 500
"""Maximum length of a token, because a lexeme has at most 2,046 bytes."""
_GAP: Final = 2
"""Gap in positions between text, labels and additional terms, so that no phrase spans two of them."""


class Words(NamedTuple):
    """The words of a chunk for the columns `words` (as text, a position for each lexeme) and `weights`
    (in binary).

    The server collects the positions of a lexeme, caps them at 16,383 and keeps 255 of them.
    """

    words: str
    weights: bytes


class _Indexed(NamedTuple):
    """A token as a literal in a `tsvector`, and its dimension in a `sparsevec`.

    With a million tokens, one in two thousand shares its dimension; of two in the same chunk, one counts.
    """

    lexeme: str
    dimension: int


@dataclass(frozen=True, slots=True)
class QuestionTerm:
    """A term of a question with its stemmed tokens."""

    term: Term
    tokens: tuple[str, ...]

    @property
    def is_token(self) -> bool:
        """Whether the term is a single word, neither a phrase nor a prefix."""
        return len(self.tokens) == 1 and not self.term.prefix

    @property
    def query(self) -> str:
        """The term as a `tsquery`."""
        suffix = ":*" if self.term.prefix else ""
        return " <-> ".join(_quoted(token) + suffix for token in self.tokens)


def words_of(chunks: Sequence[tuple[str, str]]) -> list[Words]:
    """Return the words to store for chunks, each given by its text and its labels (none for a cue)."""
    columns = [column for text, labels in chunks for column in (text, labels, index_terms(text))]
    tokens = _tokens(columns)
    return [_words(tokens[start : start + 3]) for start in range(0, len(tokens), 3)]


def terms_of(question: str) -> list[QuestionTerm]:
    """Return the distinct terms of a question that have tokens, in order."""
    terms = question_terms(question)
    found = zip(terms, _tokens([term.text for term in terms]), strict=True)
    return [QuestionTerm(term, tuple(tokens)) for term, tokens in found if tokens]


def token_term(token: str) -> QuestionTerm:
    """Return the term of a stored token."""
    return QuestionTerm(Term(token), (token,))


def any_of(terms: Iterable[QuestionTerm]) -> str:
    """Return a `tsquery` for chunks that contain at least one of the terms."""
    return " | ".join(f"({term.query})" for term in terms)


def rarities(known: Mapping[str, float]) -> bytes:
    """Return a `sparsevec` of token rarities whose inner product with `weights` is the BM25 score."""
    return _sparse({_indexed(token).dimension: rarity for token, rarity in known.items()})


def drop_copies(_erased: object) -> None:
    """Forget the words of the texts so far, since some of them were erased."""
    _tokenizer().drop_stems()
    _indexed.cache_clear()


def _tokens(texts: Sequence[str]) -> list[list[str]]:
    return [[token[:MAX_CHARACTERS] for token in tokens] for tokens in _tokenizer().tokens(texts)]


@cache
def _tokenizer() -> Tokenizer:
    return Tokenizer()


def _words(columns: Sequence[Sequence[str]]) -> Words:
    counts = Counter(chain.from_iterable(columns))
    length = counts.total()
    shares = {count: _share(count, length) for count in set(counts.values())}
    quoted: dict[str, str] = {}
    weights: dict[int, float] = {}
    for token, count in counts.items():
        quoted[token], dimension = _indexed(token)
        weights[dimension] = shares[count]
    lexemes: list[str] = []
    start = 1
    for column in columns:
        lexemes += [f"{quoted[token]}:{place}" for place, token in enumerate(column, start)]
        start += len(column) + _GAP
    return Words(" ".join(lexemes), _sparse(weights))


@lru_cache(MAX_STEMS)
def _indexed(token: str) -> _Indexed:
    return _Indexed(_quoted(token), crc32(token.encode()) % DIMENSIONS)


def _share(count: int, length: int) -> float:
    """Return the factor by which a token's rarity contributes to a chunk's score.

    Rounded, so that comparing with stored weights does not depend on the last bit.
    """
    return float(f"{count * (K1 + 1) / (count + K1 * (1 - B + B * length / MEAN_LENGTH)):.6g}")


def _quoted(token: str) -> str:
    if token.isalnum():
        return f"'{token}'"
    return "'" + token.replace("\\", "\\\\").replace("'", "''") + "'"


def _sparse(values: Mapping[int, float]) -> bytes:
    kept = sorted(values.items())
    if len(kept) > MAX_WEIGHTS:
        kept = sorted(nlargest(MAX_WEIGHTS, kept, key=itemgetter(1)))
    return encode_sparsevec(dict(kept))
