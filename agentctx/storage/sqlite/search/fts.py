"""The terms of a question against the FTS index of chunks."""

from __future__ import annotations

from collections.abc import Sequence

from agentctx.sqlite.driver import Connection
from agentctx.storage import words
from agentctx.storage.records import TermCounts
from agentctx.storage.words import Term

MAX_TERMS = 24
"""A question of 315 terms took 199 ms at 100,000 chunks; its rarest 24 find the same passages."""
_AVERAGES = 1
"""The row of an FTS5 index that begins with the number of its documents."""


def question_terms(conn: Connection, question: str) -> list[Term]:
    """The distinct terms of a question, at most the rarest `MAX_TERMS` that occur at all."""
    terms = words.question_terms(question)
    return terms if len(terms) <= MAX_TERMS else _rarest(conn, terms)


def term_counts(conn: Connection, question: str) -> TermCounts:
    """How many chunks have each term of a question, at least all words of it, and how many there are."""
    terms = words.question_terms(question)
    counts = dict(_counted(conn, terms))
    row = conn.execute("SELECT block FROM chunk_fts_data WHERE id = ?", (_AVERAGES,)).fetchone()
    return TermCounts(
        chunks=_first_varint(row[0]) if row else 0,
        counts={term.text: counts.get(number, 0) for number, term in enumerate(terms)},
    )


def _rarest(conn: Connection, terms: Sequence[Term]) -> list[Term]:
    counted = [(count, number) for number, count in _counted(conn, terms) if count]
    return [terms[number] for _, number in sorted(counted)[:MAX_TERMS]]


def _counted(conn: Connection, terms: Sequence[Term]) -> list[tuple[int, int]]:
    """Places of terms, and in how many chunks the rarest word of each occurs.

    FTS itself stems them, in a table of their own.
    """
    _make_scratch(conn)
    conn.execute("DELETE FROM temp.question")
    conn.executemany(
        "INSERT INTO temp.question (rowid, text) VALUES (?, ?)",
        [(number, term.text) for number, term in enumerate(terms)],
    )
    return conn.execute(
        """SELECT tokens.doc, MIN(COALESCE(known.doc, 0))
           FROM temp.question_tokens tokens LEFT JOIN temp.chunk_terms known ON known.term = tokens.term
           GROUP BY tokens.doc"""
    ).fetchall()


def _first_varint(block: bytes) -> int:
    """SQLite's integers of variable length: seven bits a byte, the highest says that another follows."""
    value = 0
    for byte in block:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return value


def _make_scratch(conn: Connection) -> None:
    conn.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.question USING fts5(text, tokenize='porter unicode61')"
    )
    conn.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.question_tokens USING fts5vocab(temp, question, instance)"
    )
    conn.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.chunk_terms USING fts5vocab(main, chunk_fts, row)")
