"""Reads every row of a damaged table that SQLite can still reach.

A scan ends at the first damaged page. So the table is also scanned from its other end, and the remaining rows
are looked up one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count
from typing import Any, Final

from agentctx.storage.file.driver import Connection, Error

MAX_MISSES: Final = 50_000
"""How many missing row numbers above the highest known one are looked up: 1.5 s of lookups."""
_PASSING: Final = ("SQLITE_IOERR", "SQLITE_FULL", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_INTERRUPT")
"""Errors that say nothing about the pages."""

_SCAN: Final = "SELECT {key}, {columns} FROM {table} NOT INDEXED ORDER BY {key} {direction}"
_LOOK_UP: Final = "SELECT {key}, {columns} FROM {table} NOT INDEXED WHERE {key} = ?"


def is_damage(error: Error) -> bool:
    """Return whether SQLite failed because of damaged pages."""
    return not str(getattr(error, "sqlite_errorname", "")).startswith(_PASSING)


class DamagedTable:
    """A table whose pages may be damaged.

    Args:
        key: the column that the table is ordered by: `rowid`, or the first column of the primary key.
        keys: values of `key` to look up; by default the row numbers that no scan has found.
    """

    def __init__(
        self,
        connection: Connection,
        table: str,
        columns: Sequence[str],
        *,
        key: str = "rowid",
        keys: Sequence[Any] | None = None,
    ) -> None:
        self.is_whole = True
        """Whether every row read so far was readable and accepted."""
        self._connection = connection
        self._named = {"table": table, "columns": ", ".join(columns), "key": key}
        self._keys = keys
        self._accepted: set[Any] = set()

    def read(self, accept: Callable[[tuple[Any, ...]], bool]) -> None:
        """Pass every row, as a tuple of its columns, to `accept`.

        A misplaced page shows rows of another table, under wrong row numbers: if `accept` refuses a row, its
        number is looked up as well.

        Raises:
            Error: the disk failed, or the database is busy; damage is not raised.
        """
        for direction in ("ASC", "DESC"):
            for row in self._rows(_SCAN.format(**self._named, direction=direction), ()):
                self._offer(row, accept)
            if self.is_whole:
                return
        look_up = _LOOK_UP.format(**self._named)
        misses = 0
        highest = max((number for number in self._accepted if isinstance(number, int)), default=0)
        for key in self._unread(highest):
            found = [self._offer(row, accept) for row in self._rows(look_up, (key,))]
            misses = 0 if any(found) or self._keys is not None or key <= highest else misses + 1
            if misses > MAX_MISSES:
                return

    def _offer(self, row: tuple[Any, ...], accept: Callable[[tuple[Any, ...]], bool]) -> bool:
        identity = row[0] if self._keys is None else row
        if identity in self._accepted:
            return False
        if accept(row[1:]):
            self._accepted.add(identity)
            return True
        self.is_whole = False
        return False

    def _unread(self, highest: int) -> Iterable[Any]:
        if self._keys is not None:
            return self._keys
        below = (number for number in range(1, highest) if number not in self._accepted)
        return chain(below, count(highest + 1))

    def _rows(self, sql: str, parameters: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.execute(sql, parameters)
        except Error as error:
            if not is_damage(error):
                raise
            self.is_whole = False
