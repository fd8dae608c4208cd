"""The FTS index of chunks as a whole: which chunks are in it, whether it is sound, making it anew."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from agentctx.sqlite.driver import Connection, hardening

TABLE: Final = "chunk_fts"
SHADOWS: Final = tuple(f"{TABLE}_{part}" for part in ("data", "idx", "docsize", "config"))
"""The tables in which FTS5 keeps the index."""

_COLUMNS: Final = """text, labels, terms, scope,
  content = '{content}', content_rowid = 'id', tokenize = 'porter unicode61'"""
_DEFINITION: Final = f"CREATE VIRTUAL TABLE {TABLE} USING fts5(\n  {_COLUMNS.format(content='chunk_text')}\n)"
"""As the migrations make it."""
_SETTINGS: Final = {"rank": "bm25(1.0, 1.0, 1.0, 0.0)", "secure-delete": 1}
_FORMAT: Final = 4
"""The version of FTS5's file format without which a table cannot even be dropped."""


def indexed(conn: Connection, first: int, last: int) -> set[int]:
    """The chunks from `first` to `last` that have words; none while the index is missing."""
    if missing_tables(conn):
        return set()
    rows = conn.execute(f"SELECT id FROM {TABLE}_docsize WHERE id BETWEEN ? AND ?", (first, last))  # noqa: S608 - constant
    return {row[0] for row in rows}


def indexed_among(conn: Connection, chunks: Sequence[int]) -> set[int]:
    """Those of the chunks that have words."""
    rows = conn.execute(
        f"SELECT id FROM {TABLE}_docsize WHERE id IN (SELECT value FROM json_each(?))",  # noqa: S608 - constant
        (json.dumps(list(chunks)),),
    )
    return {row[0] for row in rows}


def insert(conn: Connection, rows: Iterable[tuple[int, str, str, str, str]]) -> None:
    """Add chunks that have no words yet: chunk, text, labels, terms, scope."""
    conn.executemany(
        f"INSERT INTO {TABLE} (rowid, text, labels, terms, scope) VALUES (?, ?, ?, ?, ?)",  # noqa: S608 - constant
        rows,
    )


def missing_tables(conn: Connection) -> list[str]:
    """Which of the tables of the index are not there."""
    present = {row[0] for row in conn.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return [name for name in (TABLE, *SHADOWS) if name not in present]


def lost_settings(conn: Connection) -> list[str]:
    """The settings that the index has no more: ranking without the scope, secure deletion."""
    kept = dict(conn.execute(f"SELECT k, v FROM {TABLE}_config"))  # noqa: S608 - constant
    return [name for name, value in _SETTINGS.items() if kept.get(name) != value]


def compare_with_entries(conn: Connection) -> None:
    """Compare every word with the entries; for a read transaction, where temporary tables go away.

    FTS5's own check is an INSERT, which would take the lock of the writer for seconds. So it checks a copy of
    the index in temporary tables, which live in memory: about half a kilobyte a chunk.

    Raises:
        Error: SQLITE_CORRUPT or SQLITE_ERROR, the index is damaged or disagrees with the entries.
    """
    conn.execute("CREATE TEMP VIEW words_text AS SELECT * FROM main.chunk_text")
    conn.execute(f"CREATE VIRTUAL TABLE temp.words USING fts5({_COLUMNS.format(content='words_text')})")
    with hardening.undefended(conn):
        for shadow in SHADOWS:
            copy = shadow.replace(TABLE, "temp.words")
            conn.execute(f"DELETE FROM {copy}")  # noqa: S608 - constants
            conn.execute(f"INSERT INTO {copy} SELECT * FROM main.{shadow}")  # noqa: S608 - constants
    conn.execute("INSERT INTO temp.words (words, rank) VALUES ('integrity-check', 1)")


def unreachable_terms(conn: Connection) -> int:
    """Words that are in the index but not found through it; for a read transaction.

    The check of FTS5 reads the index from end to end and does not miss its table of seeks.
    """
    conn.execute(f"CREATE VIRTUAL TABLE temp.word_terms USING fts5vocab(main, {TABLE}, row)")
    row = conn.execute(
        """SELECT COUNT(*) FROM temp.word_terms known
           WHERE NOT EXISTS (SELECT 1 FROM temp.word_terms found WHERE found.term = known.term)"""
    ).fetchone()
    return int(row[0])


def make_empty(conn: Connection) -> None:
    """Put an empty index in the place of whatever is left of the old one."""
    with hardening.undefended(conn):
        _drop(conn)
    conn.execute(_DEFINITION)
    conn.executemany(f"INSERT INTO {TABLE} ({TABLE}, rank) VALUES (?, ?)", _SETTINGS.items())  # noqa: S608 - constant


def _drop(conn: Connection) -> None:
    missing = missing_tables(conn)
    if TABLE not in missing:
        # FTS5 opens a table to drop it, and refuses one without its settings.
        conn.execute(f"CREATE TABLE IF NOT EXISTS {TABLE}_config (k PRIMARY KEY, v) WITHOUT ROWID")
        conn.execute(f"INSERT OR REPLACE INTO {TABLE}_config (k, v) VALUES ('version', ?)", (_FORMAT,))  # noqa: S608 - constant
        conn.execute(f"DROP TABLE {TABLE}")
    for shadow in SHADOWS:
        conn.execute(f"DROP TABLE IF EXISTS {shadow}")
