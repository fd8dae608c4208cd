"""Words of chunks and queries for them, as values of `tsvector`, `tsquery` and `sparsevec`. No I/O.

The terms are those of the SQLite engine: the output of FTS5's `porter unicode61` for a text and for its
`index_terms`. PostgreSQL's own parser finds other chunks for over half of the questions with compounds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from heapq import nlargest
from operator import itemgetter
from typing import Final, NamedTuple
from zlib import crc32

from agentctx.storage.bm25 import K1, B
from agentctx.storage.file.tokenizer import MAX_STEMS, Tokenizer
from agentctx.storage.inflection import Form
from agentctx.storage.words import Term, index_terms, question_terms
from agentctx_postgresql.pgvector import DIMENSIONS, encode_sparsevec

MEAN_LENGTH: Final = 100
"""Tokens of a typical chunk, with which BM25 compares the length of each. A constant because weights are
stored: with the actual mean, all weights would have to be rewritten whenever it changes."""
MAX_WEIGHTS: Final = 16_000
"""Maximum number of non-zero weights in a `sparsevec`."""
MAX_CHARACTERS: Final = 500
"""Maximum length of a token, because a lexeme has at most 2,046 bytes."""
LAST_POSITION: Final = 2**14 - 1
MAX_POSITIONS: Final = 256
"""Of a lexeme in a `tsvector`; more are omitted, and later ones take the last."""
MAX_SHARES: Final = 10_000
"""Maximum number of shares that are kept."""
_COUNT: Final = struct.Struct(">i")
QUICK_POSITIONS: Final = 1_000
_ONE_POSITION: Final = tuple(struct.pack(">HH", 1, position) for position in range(QUICK_POSITIONS))
"""A single position, encoded in advance."""
_GAP: Final = 2
"""Gap in positions between text, labels and additional terms, so that no phrase spans two of them."""


class Words(NamedTuple):
    """The words of a chunk for the columns `words` and `weights`, both in binary."""

    words: bytes
    weights: bytes


class _IndexedToken(NamedTuple):
    """A token as a lexeme in a binary `tsvector`, and its dimension in a `sparsevec`.

    With a million tokens, one in two thousand shares its dimension; of two in the same chunk, one counts.
    """

    lexeme: bytes
    dimension: int


@dataclass(frozen=True, slots=True)
class QuestionTerm:
    """A term of a question with its stemmed tokens, and those of its forms."""

    term: Term
    tokens: tuple[str, ...]
    forms: tuple[tuple[str, ...], ...] = ()

    @property
    def is_token(self) -> bool:
        """Whether the term is a single word, neither a phrase nor a prefix nor one of several forms."""
        return len(self.tokens) == 1 and not self.term.prefix and not self.forms

    @property
    def query(self) -> str:
        """The term as a `tsquery`."""
        suffix = ":*" if self.term.prefix else ""
        whole = " <-> ".join(_quoted(token) + suffix for token in self.tokens)
        each = (" & ".join(f"{_quoted(beginning)}:*" for beginning in form) for form in self.forms)
        return " | ".join([f"({whole})", *(f"({form})" for form in each)]) if self.forms else whole


def words_of(chunks: Sequence[tuple[str, str]]) -> list[Words]:
    """Return the words to store for chunks, each given by its text and its labels (none for a cue)."""
    columns = [column for text, labels in chunks for column in (text, labels, index_terms(text))]
    tokens = _tokenizer().tokens(columns)
    return [_words(tokens[start : start + 3]) for start in range(0, len(tokens), 3)]


def terms_of(question: str) -> list[QuestionTerm]:
    """Return the distinct terms of a question that have tokens, in order."""
    terms = question_terms(question)
    found = zip(terms, _tokenizer().tokens([term.text for term in terms]), strict=True)
    return [QuestionTerm(term, tuple(tokens), _stemmed(term.forms)) for term, tokens in found if tokens]


def _stemmed(forms: Sequence[Form]) -> tuple[tuple[str, ...], ...]:
    tokens = iter(_tokenizer().tokens([beginning for form in forms for beginning in form]))
    each = (tuple(token for _ in form for token in next(tokens)) for form in forms)
    return tuple(filter(None, each))


def token_term(token: str) -> QuestionTerm:
    """Return the term of a stored token."""
    return QuestionTerm(Term(token), (token,))


def any_of(terms: Iterable[QuestionTerm]) -> str:
    """Return a `tsquery` for chunks that contain at least one of the terms."""
    return " | ".join(f"({term.query})" for term in terms)


def rarities(known: Mapping[str, float]) -> bytes:
    """Return a `sparsevec` of token rarities whose inner product with `weights` is the BM25 score."""
    return _sparse({_INDEXED[token].dimension: rarity for token, rarity in known.items()})


def drop_copies(_erased: object) -> None:
    """Forget the words of the texts so far, since some of them were erased."""
    _tokenizer().drop_stems()
    _INDEXED.clear()


@cache
def _tokenizer() -> Tokenizer:
    return Tokenizer(MAX_CHARACTERS)


def _words(columns: Sequence[Sequence[str]]) -> Words:
    length = sum(map(len, columns))
    share_once = _share(1, length)
    lexemes: list[bytes] = []
    weights: dict[int, float] = {}
    positions_by_token = _positions_by_token(columns)
    indexed = map(_INDEXED.__getitem__, positions_by_token)
    for (lexeme, dimension), positions in zip(indexed, positions_by_token.values(), strict=True):
        if len(positions) == 1 and positions[0] < QUICK_POSITIONS:  # most tokens
            lexemes.append(lexeme + _ONE_POSITION[positions[0]])
            weights[dimension] = share_once
        else:
            lexemes.append(lexeme + _encoded(positions))
            weights[dimension] = _share(len(positions), length)
    return Words(_COUNT.pack(len(positions_by_token)) + b"".join(lexemes), _sparse(weights))


def _positions_by_token(columns: Sequence[Sequence[str]]) -> Mapping[str, list[int]]:
    """Return the positions of each token."""
    positions_by_token: dict[str, list[int]] = {}
    start = 1
    for column in columns:
        for position, token in enumerate(column, start):
            if token in positions_by_token:
                positions_by_token[token].append(position)
            else:
                positions_by_token[token] = [position]
        start += len(column) + _GAP
    return positions_by_token


def _encoded(positions: Sequence[int]) -> bytes:
    """Return the positions of a lexeme as part of a binary `tsvector`."""
    count = len(positions)
    if count > MAX_POSITIONS or positions[-1] > LAST_POSITION:
        capped = {min(position, LAST_POSITION) for position in positions}
        return _encoded(sorted(capped)[:MAX_POSITIONS])
    return struct.pack(f">{count + 1}H", count, *positions)


class _IndexedTokens(dict[str, _IndexedToken]):
    """A cache, which takes half the time of `lru_cache`."""

    def __missing__(self, token: str) -> _IndexedToken:
        if len(self) >= MAX_STEMS:
            self.clear()
        encoded = token.encode()
        self[token] = indexed = _IndexedToken(encoded + b"\0", crc32(encoded) % DIMENSIONS)
        return indexed


_INDEXED: Final = _IndexedTokens()


@lru_cache(MAX_SHARES)
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
    if len(values) > MAX_WEIGHTS:
        values = dict(nlargest(MAX_WEIGHTS, values.items(), key=itemgetter(1)))
    return encode_sparsevec(values)
