"""Reading every row of a damaged table that SQLite can still reach.

A scan ends at the first page that makes no sense. So a table is read from its other end as well, and what is
left in between is looked up row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Final

from agentctx.sqlite.driver import Connection, Error

MOST_MISSES: Final = 50_000
"""Numbers in a row without a row, after which there is nothing more to expect: 1.5 s of look-ups."""
_PASSING: Final = ("SQLITE_IOERR", "SQLITE_FULL", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_INTERRUPT")
"""What says nothing about the pages."""

_SCAN: Final = "SELECT {key}, {columns} FROM {table} NOT INDEXED ORDER BY {key} {direction}"
_LOOK_UP: Final = "SELECT {key}, {columns} FROM {table} NOT INDEXED WHERE {key} = ?"


def is_damage(error: Error) -> bool:
    """Whether SQLite could not make sense of what it read."""
    return not str(getattr(error, "sqlite_errorname", "")).startswith(_PASSING)


class ReadableRows:
    """The rows of a table, each once, as tuples of its columns. Iterate once; then `is_whole` is known.

    Args:
        key: the column that the table is ordered by: `rowid`, or the first of the primary key.
        keys: values of `key` to look up after a damaged page; by default the numbers that are left out.

    Raises:
        Error: the disk failed, or the database is busy; damage is not raised.
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
        """Whether every row could be read."""
        self._connection = connection
        self._named = {"table": table, "columns": ", ".join(columns), "key": key}
        self._keys = keys

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        seen: set[tuple[Any, ...]] = set()
        ends: list[Any] = [None, None]
        for end, direction in enumerate(("ASC", "DESC")):
            for row in self._scan(direction):
                ends[end] = row[0]
                if (identity := self._identity(row)) not in seen:
                    seen.add(identity)
                    yield row[1:]
            if self.is_whole:
                return
        misses = 0
        for key in self._between(*ends):
            rows = [row for row in self._look_up(key) if self._identity(row) not in seen]
            seen.update(map(self._identity, rows))
            yield from (row[1:] for row in rows)
            misses = 0 if rows else misses + 1
            if misses > MOST_MISSES:
                return

    def _identity(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return row[:1] if self._keys is None else row

    def _between(self, first: Any, last: Any) -> Iterable[Any]:
        """The keys after the last one that was read from the one end, and before that from the other."""
        if self._keys is not None:
            return self._keys
        first = first if isinstance(first, int) else 0
        return range(first + 1, last) if isinstance(last, int) else count(first + 1)

    def _scan(self, direction: str) -> Iterator[tuple[Any, ...]]:
        sql = _SCAN.format(**self._named, direction=direction)
        return self._until_damage(sql, ())

    def _look_up(self, key: Any) -> Iterator[tuple[Any, ...]]:
        return self._until_damage(_LOOK_UP.format(**self._named), (key,))

    def _until_damage(self, sql: str, parameters: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.execute(sql, parameters)
        except Error as error:
            if not is_damage(error):
                raise
            self.is_whole = False
