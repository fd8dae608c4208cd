"""Compares databases by their rows, however these are laid out in pages."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from agentctx.storage.file.copy import check_pages
from agentctx.storage.file.driver import open_connection


def row_digest(path: Path, *, without: Sequence[str] = ()) -> str:
    """Return a digest of the schema and all rows of a database, `without` those of some tables.

    Raises StorageFailed if it is damaged.
    """
    check_pages(path)
    total = hashlib.sha256()
    with closing(open_connection(path, readonly=True)) as connection:
        schema = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()
        total.update(repr(schema).encode())
        for kind, name, sql in schema:
            if kind == "table" and name not in without and not sql.upper().startswith("CREATE VIRTUAL"):
                for row in connection.execute(f'SELECT * FROM "{name}" NOT INDEXED'):  # noqa: S608 - a name of the schema
                    total.update(repr(row).encode())
    return total.hexdigest()
