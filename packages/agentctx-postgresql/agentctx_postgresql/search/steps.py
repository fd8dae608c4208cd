"""Follows the steps of a question on one connection. Each read sees what was committed before it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from agentctx.storage.faults import Faults
from agentctx.storage.search import Distances, Nearest, Steps, Texts, WithTurns
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.search import search, vector_search
from agentctx_postgresql.vectors.nearest_index import CompleteIndexes

T = TypeVar("T")


async def follow(
    conn: Connection,
    begin: Callable[[], Steps[T]],
    space: int | None,
    *,
    now: int,
    faults: Faults,
    indexes: CompleteIndexes,
) -> T:
    """Return the result of the steps."""
    reads: dict[type, Callable[..., Awaitable[Any]]] = {
        Texts: partial(search.resolve, conn, now=now, faults=faults),
        WithTurns: partial(search.resolve_with_turns, conn, space=space, now=now, faults=faults),
    }
    if space is not None:
        reads[Nearest] = partial(vector_search.by_vector, conn, indexes, space, now=now)
        reads[Distances] = partial(vector_search.distances, conn, space)
    steps, answer = begin(), None
    while True:
        try:
            read = steps.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        answer = await reads[type(read)](*read)
