"""Words of chunks and queries for them, as literals of `tsvector`, `tsquery` and `sparsevec`. No I/O.

The terms are those of the SQLite engine: the output of FTS5's `porter unicode61` for a text and for its
`index_terms`. PostgreSQL's own parser finds other chunks for over half of the questions with compounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import nlargest
from operator import itemgetter
from typing import Final, NamedTuple
from zlib import crc32

from agentctx.sqlite.tokenizer import Tokenizer
from agentctx.storage.bm25 import K1, B
from agentctx.storage.words import Term, index_terms, question_terms

MEAN_LENGTH: Final = 100
"""Tokens of a typical chunk, with which BM25 compares the length of each. A constant because weights are
stored: with the actual mean, all weights would have to be rewritten whenever it changes."""
DIMENSIONS: Final = 1_000_000_000
"""The maximum of `sparsevec`. With a million terms, one in two thousand shares its dimension."""
MAX_WEIGHTS: Final = 16_000
"""Maximum number of non-zero weights in a `sparsevec`."""
MAX_CHARACTERS: Final = 500
"""Maximum length of a token, because a lexeme has at most 2,046 bytes."""
_LAST_POSITION: Final = 16_383
_GAP: Final = 2
"""Gap in positions between text, labels and additional terms, so that no phrase spans two of them."""


class Words(NamedTuple):
    """The words of a chunk, as stored in the columns `words` and `weights`."""

    words: str
    weights: str


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


def rarities(known: Mapping[str, float]) -> str:
    """Return a `sparsevec` of token rarities whose inner product with `weights` is the BM25 score."""
    return _sparse(known)


def drop_copies(_erased: object) -> None:
    """Forget the words of the texts so far, since some of them were erased."""
    _tokenizer().drop_stems()


def _tokens(texts: Sequence[str]) -> list[list[str]]:
    return [[token[:MAX_CHARACTERS] for token in tokens] for tokens in _tokenizer().tokens(texts)]


@cache
def _tokenizer() -> Tokenizer:
    return Tokenizer()


def _words(columns: Sequence[Sequence[str]]) -> Words:
    positions: defaultdict[str, list[int]] = defaultdict(list)
    start = 1
    for column in columns:
        for place, token in enumerate(column, start):
            positions[token].append(place)
        start += len(column) + _GAP
    length = sum(map(len, columns))
    shares = {count: _share(count, length) for count in set(map(len, positions.values()))}
    weights = _sparse({token: shares[len(places)] for token, places in positions.items()})
    return Words(" ".join([_lexeme(*each) for each in positions.items()]), weights)


def _share(count: int, length: int) -> float:
    """Return the factor by which a token's rarity contributes to a chunk's score."""
    return count * (K1 + 1) / (count + K1 * (1 - B + B * length / MEAN_LENGTH))


def _lexeme(token: str, places: Sequence[int]) -> str:
    if len(places) == 1 and places[0] <= _LAST_POSITION:
        return f"{_quoted(token)}:{places[0]}"
    kept = places if places[-1] <= _LAST_POSITION else dict.fromkeys(_capped(places))
    return f"{_quoted(token)}:{','.join(map(str, kept))}"


def _capped(places: Iterable[int]) -> Iterator[int]:
    return (min(place, _LAST_POSITION) for place in places)


def _quoted(token: str) -> str:
    if token.isalnum():
        return f"'{token}'"
    return "'" + token.replace("\\", "\\\\").replace("'", "''") + "'"


def _dimension(token: str) -> int:
    return crc32(token.encode()) % DIMENSIONS + 1


def _sparse(values: Mapping[str, float]) -> str:
    by_place: defaultdict[int, float] = defaultdict(float)
    for token, value in values.items():
        by_place[_dimension(token)] += value
    kept = sorted(by_place.items())
    if len(kept) > MAX_WEIGHTS:
        kept = sorted(nlargest(MAX_WEIGHTS, kept, key=itemgetter(1)))
    texts = {weight: f"{weight:.6g}" for weight in set(by_place.values())}  # few, which the tokens share
    return "{" + ",".join([f"{place}:{texts[weight]}" for place, weight in kept]) + f"}}/{DIMENSIONS}"
