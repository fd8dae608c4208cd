"""Follows the steps of a change on PostgreSQL: one round trip for each statement, in one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from agentctx.storage.steps import Statement, Steps
from agentctx_postgresql.driver import Connection

T = TypeVar("T")

EXECUTE: Final[Mapping[type[Statement[Any]], Callable[[Connection, Any], Awaitable[Any]]]] = {}
"""The function that executes each statement."""


async def follow(conn: Connection, steps: Steps[T]) -> T:
    """Return the result of the steps. Runs inside the caller's transaction, which an error rolls back."""
    try:
        statement = next(steps)
        while True:
            statement = steps.send(await EXECUTE[type(statement)](conn, statement))
    except StopIteration as finished:
        result: T = finished.value
        return result
