"""Follows the steps of a change on SQLite: each statement runs at once, in the writer's transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from agentctx.storage.file.driver import Connection
from agentctx.storage.steps import Statement, Steps

T = TypeVar("T")

EXECUTE: Final[Mapping[type[Statement[Any]], Callable[[Connection, Any], Any]]] = {}
"""The function that executes each statement."""


def follow(conn: Connection, steps: Steps[T]) -> T:
    """Return the result of the steps. Runs inside the caller's transaction, which an error rolls back."""
    try:
        statement = next(steps)
        while True:
            statement = steps.send(EXECUTE[type(statement)](conn, statement))
    except StopIteration as finished:
        result: T = finished.value
        return result
