"""The FTS index of chunks: writing it, listing its chunks, and checking it.

While it is rebuilt (`word_rebuild`), there are two: `TABLE` answers, and `NEXT` replaces it once it has every
chunk. Every change of words goes to both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from agentctx.storage.file.driver import Connection, hardening, notes_of

WordRow: TypeAlias = tuple[int, str, str, str, str]
"""Chunk, text, labels, terms, scope."""

TABLE: Final = "chunk_fts"
NEXT: Final = "chunk_fts_next"
"""Exists during a rebuild, even across a restart."""
TABLES: Final = (TABLE, NEXT)
REPLACED: Final = None
"""Noted of a transaction that puts another index into service; of others, the chunks whose words change."""
_PARTS: Final = ("data", "idx", "docsize", "config")
SHADOWS: Final = tuple(f"{TABLE}_{part}" for part in _PARTS)
"""The shadow tables in which FTS5 keeps the index."""

_COLUMNS: Final = """text, labels, terms, scope,
  content = '{content}', content_rowid = 'id', tokenize = 'porter unicode61'"""
_CREATE: Final = f"CREATE VIRTUAL TABLE {{table}} USING fts5(\n  {_COLUMNS.format(content='chunk_text')}\n)"
"""Same as in the migrations."""
_INSERT: Final = "INSERT INTO {table} (rowid, text, labels, terms, scope) VALUES (?, ?, ?, ?, ?)"
_REMOVE: Final = """INSERT INTO {table} ({table}, rowid, text, labels, terms, scope)
VALUES ('delete', ?, ?, ?, ?, ?)"""
_DROP: Final = "DROP TABLE {table}"
_AMONG: Final = "SELECT id FROM {table}_docsize WHERE id IN (SELECT value FROM json_each(?))"
_SETTINGS: Final = {"rank": "bm25(1.0, 1.0, 1.0, 0.0)", "secure-delete": 1}
_PLACEHOLDER: Final = (0, "x", "", "", "")
"""A text with a number that no chunk has."""
_FORMAT: Final = 4
"""The version of FTS5's file format; without it a table cannot even be dropped."""


def indexed(conn: Connection, first: int, last: int) -> set[int]:
    """Return the chunks from `first` to `last` that have words; none while the index is missing."""
    if missing_tables(conn):
        return set()
    rows = conn.execute(f"SELECT id FROM {TABLE}_docsize WHERE id BETWEEN ? AND ?", (first, last))  # noqa: S608 - constant
    return {row[0] for row in rows}


def insert(conn: Connection, rows: Iterable[WordRow]) -> None:
    """Add chunks that have no words yet."""
    added = list(rows)
    notes_of(conn).update(row[0] for row in added)
    for table in _written(conn):
        insert_into(conn, table, added)


def insert_into(conn: Connection, table: str, rows: Iterable[WordRow]) -> None:
    """Add chunks to one of the two indexes."""
    conn.executemany(_INSERT.format(table=table), rows)


def remove(conn: Connection, rows: Sequence[WordRow]) -> None:
    """Remove the words of chunks, with the values they were added with. Chunks without words are ignored."""
    notes_of(conn).update(row[0] for row in rows)
    for table in _written(conn):
        # FTS5 subtracts whatever it is given, even words it does not have, which would corrupt the index.
        ids = json.dumps([row[0] for row in rows])
        indexed = {row[0] for row in conn.execute(_AMONG.format(table=table), (ids,))}
        conn.executemany(_REMOVE.format(table=table), [row for row in rows if row[0] in indexed])


def compact(conn: Connection) -> None:
    """Rewrite the index, so that no remains of removed words are left in it: a second for 150,000 chunks.

    FTS5 keeps the first word of a page as its key, and merged pages until a merge ends. It rewrites all of
    them only if there are at least two segments, so a text is added for that time. An index that is being
    rebuilt has no remains.
    """
    if missing_tables(conn) or is_rebuilt(conn):
        return
    insert_into(conn, TABLE, [_PLACEHOLDER])
    conn.execute(f"INSERT INTO {TABLE} ({TABLE}) VALUES ('optimize')")  # noqa: S608 - constant
    conn.execute(_REMOVE.format(table=TABLE), _PLACEHOLDER)


def missing_tables(conn: Connection, table: str = TABLE) -> list[str]:
    """Return the missing tables of an index."""
    present = _tables(conn)
    return [name for name in (table, *_shadows(table)) if name not in present]


def is_rebuilt(conn: Connection) -> bool:
    """Return whether a rebuild is unfinished."""
    found = conn.execute("SELECT 1 FROM sqlite_schema WHERE name = ? AND type = 'table'", (NEXT,))
    return found.fetchone() is not None


def lost_settings(conn: Connection) -> list[str]:
    """Return the lost settings of the index: ranking without the scope, secure deletion."""
    kept = dict(conn.execute(f"SELECT k, v FROM {TABLE}_config"))  # noqa: S608 - constant
    return [name for name, value in _SETTINGS.items() if kept.get(name) != value]


def compare_with_entries(conn: Connection) -> None:
    """Compare every word with the entries; for a read transaction, which removes temporary tables.

    FTS5's own check is an INSERT, which would hold the write lock for seconds. So it checks a copy of the
    index in temporary tables, which are in memory: about half a kilobyte per chunk.

    Raises:
        Error: SQLITE_CORRUPT or SQLITE_ERROR, the index is damaged or disagrees with the entries.
    """
    conn.execute("CREATE TEMP VIEW words_text AS SELECT * FROM main.chunk_text")
    conn.execute(f"CREATE VIRTUAL TABLE temp.words USING fts5({_COLUMNS.format(content='words_text')})")
    with hardening.without_defensive(conn):
        for shadow in SHADOWS:
            copy = shadow.replace(TABLE, "temp.words")
            conn.execute(f"DELETE FROM {copy}")  # noqa: S608 - constants
            conn.execute(f"INSERT INTO {copy} SELECT * FROM main.{shadow}")  # noqa: S608 - constants
    conn.execute("INSERT INTO temp.words (words, rank) VALUES ('integrity-check', 1)")


def unreachable_terms(conn: Connection) -> int:
    """Count words that are in the index but not found through it; for a read transaction.

    FTS5's check reads the index from end to end, and does not notice a damaged seek table.
    """
    conn.execute(f"CREATE VIRTUAL TABLE temp.word_terms USING fts5vocab(main, {TABLE}, row)")
    row = conn.execute(
        """SELECT COUNT(*) FROM temp.word_terms known
           WHERE NOT EXISTS (SELECT 1 FROM temp.word_terms found WHERE found.term = known.term)"""
    ).fetchone()
    return int(row[0])


def create(conn: Connection, table: str) -> None:
    """Create an empty index with its settings."""
    conn.execute(_CREATE.format(table=table))
    sql = f"INSERT INTO {table} ({table}, rank) VALUES (?, ?)"  # noqa: S608 - one of two constants
    conn.executemany(sql, _SETTINGS.items())


def drop(conn: Connection, table: str) -> None:
    """Drop an index, or whatever remains of it."""
    with hardening.without_defensive(conn):
        if table in _tables(conn):
            # FTS5 opens a table to drop it, and refuses one without its settings.
            config = f"{table}_config"
            conn.execute(f"CREATE TABLE IF NOT EXISTS {config} (k PRIMARY KEY, v) WITHOUT ROWID")
            conn.execute(f"INSERT OR REPLACE INTO {config} (k, v) VALUES ('version', ?)", (_FORMAT,))  # noqa: S608 - constant
            conn.execute(_DROP.format(table=table))
        for shadow in _shadows(table):
            conn.execute(f"DROP TABLE IF EXISTS {shadow}")


def replace_by_next(conn: Connection) -> None:
    """Replace `TABLE` by `NEXT`."""
    notes_of(conn).add(REPLACED)
    drop(conn, TABLE)
    with hardening.without_defensive(conn):
        conn.execute(f"ALTER TABLE {NEXT} RENAME TO {TABLE}")


def _written(conn: Connection) -> list[str]:
    """Return the indexes that changes go to. An incomplete `TABLE` is skipped during a rebuild."""
    if not is_rebuilt(conn):
        return [TABLE]
    return [NEXT] if missing_tables(conn) else [NEXT, TABLE]


def _shadows(table: str) -> tuple[str, ...]:
    return tuple(f"{table}_{part}" for part in _PARTS)


def _tables(conn: Connection) -> set[str]:
    return {row[0] for row in conn.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
