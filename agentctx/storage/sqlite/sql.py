"""Executes the SQL that both engines understand (`storage.steps`) on SQLite, and follows steps of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar

from agentctx.storage.file.driver import Connection
from agentctx.storage.steps import Execute, ExecuteMany, LockEntries, Rows

T = TypeVar("T")
Functions: TypeAlias = Mapping[type, Callable[[Connection, Any], Any]]
Asking: TypeAlias = Generator[Any, Any, T]
"""Steps of a change, or reads of a question."""

_GIVEN: Final = "(SELECT value AS id FROM json_each(?))"


@lru_cache(maxsize=256)
def _translated(sql: str) -> str:
    return sql.replace("?ids", _GIVEN).replace("?numbers", _GIVEN).replace(" FOR UPDATE", "")


def execute(conn: Connection, statement: Rows | Execute) -> Any:
    """Return the driver's cursor."""
    values = [json.dumps(list(each)) if isinstance(each, list | tuple) else each for each in statement.values]
    return conn.execute(_translated(statement.sql), values)


SQL: Final[Functions] = {
    Rows: lambda conn, statement: execute(conn, statement).fetchall(),
    Execute: lambda conn, statement: execute(conn, statement).rowcount,
    ExecuteMany: lambda conn, statement: conn.executemany(statement.sql, statement.rows),
    LockEntries: lambda _conn, _statement: None,
}


def follow(conn: Connection, steps: Asking[T] | Callable[[], Asking[T]], functions: Functions = SQL) -> T:
    """Return the result of the steps, or of those that a function begins.

    `functions` execute their statements; the default executes plain SQL. Runs inside the caller's
    transaction, which an error rolls back.
    """
    steps = steps() if callable(steps) else steps
    try:
        statement = next(steps)
        while True:
            statement = steps.send(functions[type(statement)](conn, statement))
    except StopIteration as finished:
        result: T = finished.value
        return result
