"""The terms of a question in the FTS index of chunks: how common they are, and which chunks have them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from agentctx.storage.bm25 import Corpus, Numbers
from agentctx.storage.file.driver import Connection
from agentctx.storage.search import TermCounts
from agentctx.storage.words import Term, match_expression, scope_expression

Scope: TypeAlias = Sequence[Sequence[str]]

MAX_TERMS: Final = 24
"""A question of 315 terms took 199 ms at 100,000 chunks; its rarest 24 find the same passages."""
_AVERAGES: Final = 1
"""The row of an FTS5 index that begins with the number of its documents."""

_TOKENS: Final = "SELECT doc, term FROM temp.question_tokens ORDER BY doc, offset"
_BEGINS: Final = "SELECT 1 FROM temp.chunk_terms WHERE term >= ? AND term < ? || char(0x10ffff) LIMIT 1"
_COUNTS: Final = """SELECT wanted.value, known.doc FROM json_each(?) wanted
    CROSS JOIN temp.chunk_terms known ON known.term = wanted.value"""
# One row with all numbers, because most of the time would go into creating one tuple per row.
_OCCURRENCES: Final = "SELECT group_concat(doc) FROM temp.chunk_occurrences WHERE term = ?"
_NEWEST_MATCHING: Final = """SELECT group_concat(rowid) FROM
    (SELECT rowid FROM chunk_fts WHERE chunk_fts MATCH ? ORDER BY rowid DESC LIMIT ?)"""
_BEYOND: Final = "SELECT 1 FROM chunk_fts WHERE chunk_fts MATCH ? LIMIT 1 OFFSET ?"
_ALL_MATCHING: Final = "SELECT group_concat(rowid) FROM chunk_fts WHERE chunk_fts MATCH ?"
_COUNT: Final = "SELECT COUNT(*) FROM chunk_fts WHERE chunk_fts MATCH ?"
_POOL: Final = """INSERT INTO temp.pool (rowid, text, labels, terms) SELECT id, text, labels, terms
    FROM main.chunk_text WHERE id IN (SELECT value FROM json_each(?))"""
_LENGTHS: Final = """SELECT docs.id, docs.sz FROM json_each(?) hit
    CROSS JOIN chunk_fts_docsize docs ON docs.id = hit.value"""

_SCRATCH: Final = (
    """CREATE VIRTUAL TABLE IF NOT EXISTS temp.question USING fts5(text, tokenize='porter unicode61')""",
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.question_tokens USING fts5vocab(temp, question, instance)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.chunk_terms USING fts5vocab(main, chunk_fts, row)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.chunk_occurrences USING fts5vocab(main, chunk_fts, instance)",
    """CREATE VIRTUAL TABLE IF NOT EXISTS temp.pool
       USING fts5(text, labels, terms, tokenize='porter unicode61')""",
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.pool_occurrences USING fts5vocab(temp, pool, instance)",
)


@dataclass(frozen=True, slots=True)
class KnownTerm:
    """A term in the index: its stemmed tokens or their hashes, and how many chunks have the rarest."""

    term: Term
    tokens: tuple[Any, ...]
    chunks: int

    @property
    def is_token(self) -> bool:
        """Whether the term is one word, neither a phrase nor a prefix nor one of several forms."""
        return len(self.tokens) == 1 and not self.term.prefix and not self.term.forms


def known_terms(conn: Connection, terms: Sequence[Term]) -> list[KnownTerm]:
    """Return the terms of a question that have tokens."""
    tokens = tokens_of(conn, [term.text for term in terms])
    distinct = list({token for each in tokens for token in each})
    counts: dict[str, int] = dict(conn.execute(_COUNTS, (json.dumps(distinct),)).fetchall())
    return [
        KnownTerm(
            term,
            tuple(each),
            count_matching(conn, term) if term.forms else min(counts.get(token, 0) for token in each),
        )
        for term, each in zip(divided(conn, terms), tokens, strict=True)
        if each
    ]


def tokens_of(conn: Connection, texts: Sequence[str]) -> list[list[str]]:
    """Return the tokens of each text, as the index has them: FTS itself stems them, in a separate table."""
    make_scratch(conn)
    conn.execute("DELETE FROM temp.question")
    conn.executemany("INSERT INTO temp.question (rowid, text) VALUES (?, ?)", enumerate(texts))
    found: list[list[str]] = [[] for _ in texts]
    for number, token in conn.execute(_TOKENS):
        found[number].append(token)
    return found


def divided(conn: Connection, terms: Sequence[Term]) -> Sequence[Term]:
    """Leave out the divisions of compounds with a part that begins no word: FTS would collect the other's."""
    parts = list({part for term in terms for form in term.forms if len(form) > 1 for part in form})
    if not parts:
        return terms
    tokens = zip(parts, tokens_of(conn, parts), strict=True)
    known = {
        part for part, found in tokens for token in found if conn.execute(_BEGINS, (token, token)).fetchone()
    }
    return [
        replace(term, forms=tuple(form for form in term.forms if len(form) == 1 or known.issuperset(form)))
        for term in terms
    ]


def searched(terms: Sequence[KnownTerm]) -> list[KnownTerm]:
    """Return the terms that can be found, rarest first, at most `MAX_TERMS`."""
    # It is not known in advance how common the words with a prefix are.
    present = [term for term in terms if term.chunks or term.term.prefix]
    return sorted(present, key=lambda term: (term.term.prefix, term.chunks))[:MAX_TERMS]


def term_counts(terms: Sequence[Term], known: Sequence[KnownTerm], chunks: int) -> TermCounts:
    """Return how many of the `chunks` have each term of a question, with all its words."""
    counts = dict.fromkeys((term.text for term in terms), 0)
    return TermCounts(chunks, counts | {each.term.text: each.chunks for each in known})


def corpus(conn: Connection) -> Corpus:
    """Return the totals that the index keeps of all chunks."""
    row = conn.execute("SELECT block FROM chunk_fts_data WHERE id = ?", (_AVERAGES,)).fetchone()
    chunks, *lengths = _varints(row[0]) if row and row[0] else (0,)
    return Corpus(chunks, sum(lengths))


def newest_chunk(conn: Connection) -> int:
    """Return the greatest chunk in the index; 0 if it is empty."""
    return int(conn.execute("SELECT coalesce(max(id), 0) FROM chunk_fts_docsize").fetchone()[0])


def occurrences(conn: Connection, token: str) -> tuple[Numbers, Numbers]:
    """Return the chunks of all namespaces that have a token, ascending, and how often each has it."""
    found = numbers(conn.execute(_OCCURRENCES, (token,)).fetchone()[0])
    if not len(found):
        return found, found
    starts = np.flatnonzero(np.append(True, found[1:] != found[:-1]))
    return found[starts], np.append(starts[1:], len(found)) - starts


def newest_matching(conn: Connection, term: Term, scope: Scope, limit: int) -> Numbers:
    """Return the chunks in scope that have a term, ascending; if more than `limit`, the newest."""
    expression = match_expression([term], scope)
    return numbers(conn.execute(_NEWEST_MATCHING, (expression, limit)).fetchone()[0])[::-1]


def matching(conn: Connection, term: Term, scope: Scope) -> Numbers:
    """Return the chunks in scope that have a term, ascending."""
    expression = match_expression([term], scope)
    return numbers(conn.execute(_ALL_MATCHING, (expression,)).fetchone()[0])


def count_matching(conn: Connection, term: Term) -> int:
    """Return how many chunks of all namespaces have a term."""
    count: int = conn.execute(_COUNT, (match_expression([term], ()),)).fetchone()[0]
    return count


def counts_in(conn: Connection, terms: Sequence[KnownTerm], chunks: Sequence[int]) -> list[dict[int, int]]:
    """Return for each term how often chunks have it: 30 µs per chunk, however common the terms."""
    fill_pool(conn, chunks)
    return [dict(_counted_in_pool(conn, term)) for term in terms]


def fill_pool(conn: Connection, chunks: Sequence[int]) -> None:
    """Replace the texts in `temp.pool` by those of the chunks, until the transaction ends."""
    conn.execute("DELETE FROM temp.pool")
    conn.execute(_POOL, (json.dumps(list(chunks)),))


def words_of(conn: Connection, chunks: Sequence[int]) -> list[tuple[str, str]]:
    """Return the words of chunks, each with the chunk of every occurrence, ascending, like `1,1,2`."""
    fill_pool(conn, chunks)
    return conn.execute("SELECT term, group_concat(doc) FROM temp.pool_occurrences GROUP BY term").fetchall()


def _counted_in_pool(conn: Connection, known: KnownTerm) -> Iterator[tuple[int, int]]:
    if known.is_token:
        sql = "SELECT doc, COUNT(*) FROM temp.pool_occurrences WHERE term = ? GROUP BY doc"
        yield from conn.execute(sql, known.tokens)
    else:
        expression = match_expression([known.term], ())
        yield from conn.execute("SELECT rowid, 1 FROM temp.pool WHERE pool MATCH ?", (expression,))


def lengths(conn: Connection, chunks: Sequence[int]) -> dict[int, int]:
    """Return how many tokens each chunk has in the index."""
    rows = conn.execute(_LENGTHS, (json.dumps(list(chunks)),))
    return {chunk: sum(sizes_of(sizes)) for chunk, sizes in rows}


def sizes_of(block: bytes) -> Sequence[int]:
    """Return how many tokens a chunk has in each column."""
    # A byte below 128 is a whole number, and most columns have fewer tokens.
    return block if block.isascii() else _varints(block)


def is_larger(conn: Connection, tokens: Sequence[str], size: int) -> bool:
    """Return whether more than `size` chunks have one of the scope tokens."""
    return conn.execute(_BEYOND, (scope_expression([tokens]), size)).fetchone() is not None


def in_scope(conn: Connection, scope: Scope) -> Numbers:
    """Return the chunks that have a token of every group."""
    return numbers(conn.execute(_ALL_MATCHING, (scope_expression(scope),)).fetchone()[0])


def numbers(joined: str | None) -> Numbers:
    """Return the numbers of a list like `1,2`."""
    return np.fromstring(joined or "", dtype=np.int64, sep=",")


def _varints(block: bytes) -> list[int]:
    """Decode SQLite's variable-length integers: seven bits per byte, the highest bit marks continuation."""
    values, value = [], 0
    for byte in block:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            values.append(value)
            value = 0
    return values


def make_scratch(conn: Connection) -> None:
    """Create the temporary tables if they do not exist, which takes a millisecond."""
    for statement in _SCRATCH:
        conn.execute(statement)
