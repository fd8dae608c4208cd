"""The text of a schema as SQLite keeps it, and how it differs from another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from agentctx.sqlite.driver import Connection

Schema: TypeAlias = Mapping[str, tuple[bytes, ...]]
"""What counts of the SQL of each table, index and view, by its name."""

# The tables of an FTS5 index are FTS5's, of whichever version, and made again by a repair.
# Those of vectors are made when their dimension is known.
_SELECT: Final = """
SELECT name, CAST(sql AS BLOB) FROM sqlite_schema
WHERE sql IS NOT NULL AND name NOT GLOB 'chunk_fts*' AND name NOT GLOB 'vec_[0-9]*'
  AND name NOT GLOB 'sqlite_stat*'
"""
_SQL_WORD: Final = re.compile(rb"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|\w+|\S", re.DOTALL)


def stored_schema(conn: Connection) -> Schema:
    """The schema of a database, without its keyword index and its tables of vectors."""
    return {name: schema_words(text) for name, text in conn.execute(_SELECT)}


def schema_problems(stored: Schema, intended: Schema) -> Iterator[str]:
    """What of the intended schema is missing or different. What is there beside it does not count."""
    for name, words in intended.items():
        if name not in stored:
            yield f"{name} is missing"
        elif stored[name] != words:
            yield f"the schema of {name} is not as it was made"


def schema_words(sql: bytes) -> tuple[bytes, ...]:
    """What counts of a schema's text: no comments, spaces or quotes around names, and no upper case."""
    words = [word for word in _SQL_WORD.findall(sql) if not word.startswith((b"--", b"/*")) and word != b'"']
    return tuple(word if word.startswith(b"'") else word.lower() for word in words)
