"""Reads SQLite databases of other programs: tables only, read-only, with nothing of their schema trusted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from agentctx_importers.files import opened
from agentctx_importers.records import Unreadable

MAX_VALUE_BYTES: Final = 64 * 1024 * 1024
BUSY_S: Final = 10.0
_MAGIC: Final = b"SQLite format 3\x00"
_HARDENING: Final = (
    "PRAGMA trusted_schema = OFF",
    "PRAGMA query_only = ON",
    "PRAGMA cell_size_check = ON",
    "PRAGMA mmap_size = 0",
)
_TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
_DEFENSIVE: Final = 1010
"""SQLITE_DBCONFIG_DEFENSIVE, which Python has names for since 3.12."""
_ALLOWED: Final = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}
_FUNCTIONS: Final = {"like", "coalesce"}


class ForeignDatabase:
    """An open database of another program."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path, self._connection = path, connection
        self._tables = {str(name) for (name,) in connection.execute(_TABLES)}

    def has(self, *tables: str) -> bool:
        """Return whether all these are tables: a view of the same name could do anything."""
        return self._tables.issuperset(tables)

    def rows(self, statement: str, *tables: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query of these tables, one by one. Raises `Unreadable`."""
        if not self.has(*tables):
            raise Unreadable(
                f"{self._path} has no table {', '.join(tables)}.", hint="Give the database of this program."
            )
        with _translated(self._path):
            yield from self._connection.execute(statement, values)


@contextmanager
def opened_database(path: Path) -> Iterator[ForeignDatabase]:
    """Open a database that another program may be using. Raises `Unreadable` and OSError."""
    with opened(path) as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise Unreadable(f"{path} is not a database of SQLite.", hint="Give another file.")
    address = _address(path)
    with _translated(path), closing(sqlite3.connect(address, uri=True, timeout=BUSY_S)) as connection:
        _harden(connection)
        yield ForeignDatabase(path, connection)


def _address(path: Path) -> str:
    """Return the address to open. What nobody writes is immutable, so that no file beside it is created."""
    beside = [path.with_name(path.name + end) for end in ("-wal", "-journal")]
    is_in_use = any(each.exists() and each.stat().st_size for each in beside)
    return f"{path.resolve().as_uri()}?mode=ro{'' if is_in_use else '&immutable=1'}"


def _harden(connection: sqlite3.Connection) -> None:
    for statement in _HARDENING:
        connection.execute(statement)
    if hasattr(connection, "setconfig"):
        connection.setconfig(_DEFENSIVE, True)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    connection.text_factory = lambda data: data.decode(errors="replace")
    connection.set_authorizer(_authorize)


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    del first
    is_function = action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS
    return sqlite3.SQLITE_OK if action in _ALLOWED or is_function else sqlite3.SQLITE_DENY


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OverflowError) as error:
        hint = "If the program is running, stop it; else give the database of this program."
        raise Unreadable(f"{path} cannot be read: {error}.", hint=hint) from error
