"""Executes the SQL that both engines understand (`storage.steps`) on PostgreSQL, and follows steps of it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator, Mapping
from functools import lru_cache
from itertools import count
from typing import Any, Final, TypeAlias, TypeVar

from agentctx.storage.steps import Execute, ExecuteMany, LockEntries, Rows
from agentctx_postgresql import locks
from agentctx_postgresql.driver import Connection

T = TypeVar("T")
Functions: TypeAlias = Mapping[type, Callable[[Connection, Any], Awaitable[Any]]]

_VALUE: Final = re.compile(r"(IN )?\?(ids|numbers)?")
_ARRAYS: Final = {"ids": "text[]", "numbers": "bigint[]"}


@lru_cache(maxsize=256)
def _translated(sql: str) -> str:
    numbers = count(1)

    def numbered(found: re.Match[str]) -> str:
        given = f"${next(numbers)}"
        if found[2] is None:
            return (found[1] or "") + given
        array = f"{given}::{_ARRAYS[found[2]]}"
        return f"= ANY ({array})" if found[1] else f"(SELECT unnest({array}) AS id)"

    return _VALUE.sub(numbered, sql)


async def fetch(conn: Connection, statement: Rows) -> list[Any]:
    rows: list[Any] = await conn.fetch(_translated(statement.sql), *statement.values)
    return rows


async def execute(conn: Connection, statement: Execute) -> int:
    done: str = await conn.execute(_translated(statement.sql), *statement.values)
    return int(done.rpartition(" ")[2])


async def _lock_entries(conn: Connection, wanted: LockEntries) -> None:
    if wanted.with_spaces:
        await locks.lock_spaces_shared(conn)
    await locks.lock_entries(conn, wanted.entries)


SQL: Final[Functions] = {
    Rows: fetch,
    Execute: execute,
    ExecuteMany: lambda conn, statement: conn.executemany(_translated(statement.sql), statement.rows),
    LockEntries: _lock_entries,
}


async def follow(conn: Connection, steps: Generator[Any, Any, T], functions: Functions = SQL) -> T:
    """Return the result of the steps. `functions` execute their statements; the default executes plain SQL.

    Runs inside the caller's transaction, which an error rolls back.
    """
    try:
        statement = next(steps)
        while True:
            statement = steps.send(await functions[type(statement)](conn, statement))
    except StopIteration as finished:
        result: T = finished.value
        return result
