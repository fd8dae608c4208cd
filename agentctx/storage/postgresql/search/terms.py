"""What is stored of the words of a chunk, and what is asked of it: literals of `tsvector`, `tsquery` and
`sparsevec`. No I/O.

The terms are those of the SQLite engine: what FTS5's `porter unicode61` makes of a text and of its
`index_terms`. PostgreSQL's own parser finds other chunks for more than half of the questions with compounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
"""Tokens of a usual chunk, to which BM25 compares the length of each. The weights are stored, so it is a
constant: the mean of a memory would have to be stored with it, and with every change all weights again."""
DIMENSIONS: Final = 1_000_000_000
"""The most that a `sparsevec` has. Of a million terms one in two thousand shares its dimension."""
MOST_WEIGHTS: Final = 16_000
"""The most that are not zero in a `sparsevec`."""
MOST_CHARACTERS: Final = 500
"""Of a token: a lexeme has at most 2,046 bytes."""
_LAST_POSITION: Final = 16_383
_GAP: Final = 2
"""Between text, labels and additional terms: no phrase reaches from one to the next."""


class Words(NamedTuple):
    """The words of a chunk, as the columns `words` and `weights` are written."""

    words: str
    weights: str


@dataclass(frozen=True, slots=True)
class QuestionTerm:
    """A term of a question with its stemmed tokens."""

    term: Term
    tokens: tuple[str, ...]

    @property
    def is_token(self) -> bool:
        """Whether it is one word, neither a phrase nor the beginning of longer words."""
        return len(self.tokens) == 1 and not self.term.prefix

    @property
    def query(self) -> str:
        """As a `tsquery`."""
        suffix = ":*" if self.term.prefix else ""
        return " <-> ".join(_quoted(token) + suffix for token in self.tokens)


def words_of(chunks: Sequence[tuple[str, str]]) -> list[Words]:
    """What to store for chunks, each given by its text and its labels (none for a cue)."""
    columns = [column for text, labels in chunks for column in (text, labels, index_terms(text))]
    tokens = _tokens(columns)
    return [_words(tokens[start : start + 3]) for start in range(0, len(tokens), 3)]


def terms_of(question: str) -> list[QuestionTerm]:
    """The distinct terms of a question that have tokens, in order."""
    terms = question_terms(question)
    found = zip(terms, _tokens([term.text for term in terms]), strict=True)
    return [QuestionTerm(term, tuple(tokens)) for term, tokens in found if tokens]


def of_token(token: str) -> QuestionTerm:
    """A term for a token as it is stored."""
    return QuestionTerm(Term(token), (token,))


def any_of(terms: Iterable[QuestionTerm]) -> str:
    """A `tsquery` for chunks that have one of the terms, at least."""
    return " | ".join(f"({term.query})" for term in terms)


def rarities(known: Mapping[str, float]) -> str:
    """A `sparsevec` whose inner product with `weights` is the BM25 score, given how much each token says."""
    return _sparse(known)


def _tokens(texts: Sequence[str]) -> list[list[str]]:
    return [[token[:MOST_CHARACTERS] for token in tokens] for tokens in _tokenizer().tokens(texts)]


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
    return Words(" ".join(_lexeme(*each) for each in positions.items()), weights)


def _share(count: int, length: int) -> float:
    """What a token adds to the score of a chunk for each point of its rarity."""
    return count * (K1 + 1) / (count + K1 * (1 - B + B * length / MEAN_LENGTH))


def _lexeme(token: str, places: Sequence[int]) -> str:
    if len(places) == 1 and places[0] <= _LAST_POSITION:
        return f"{_quoted(token)}:{places[0]}"
    kept = dict.fromkeys(min(place, _LAST_POSITION) for place in places)
    return f"{_quoted(token)}:{','.join(map(str, kept))}"


def _quoted(token: str) -> str:
    return "'" + token.replace("\\", "\\\\").replace("'", "''") + "'"


def _dimension(token: str) -> int:
    return crc32(token.encode()) % DIMENSIONS + 1


def _sparse(values: Mapping[str, float]) -> str:
    by_place: defaultdict[int, float] = defaultdict(float)
    for token, value in values.items():
        by_place[_dimension(token)] += value
    kept = sorted(by_place.items())
    if len(kept) > MOST_WEIGHTS:
        kept = sorted(nlargest(MOST_WEIGHTS, kept, key=itemgetter(1)))
    return "{" + ",".join(f"{place}:{weight:.6g}" for place, weight in kept) + f"}}/{DIMENSIONS}"
