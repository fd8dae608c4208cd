"""Follows the steps of a question: all its reads in one snapshot, with the decisions between them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from agentctx.storage.faults import Faults
from agentctx.storage.file.driver import Connection
from agentctx.storage.search import Distances, Nearest, Steps, Texts, WithTurns
from agentctx.storage.sqlite.search import search
from agentctx.storage.sqlite.vectors.vector_copies import VectorCopies
from agentctx.storage.sqlite.vectors.verified_vectors import VerifiedVectors

T = TypeVar("T")


def follow(
    conn: Connection,
    begin: Callable[[], Steps[T]],
    space: int | None,
    *,
    now: int,
    faults: Faults,
    copies: VectorCopies,
    verified: VerifiedVectors | None,
) -> T:
    """Return the result of the steps. `verified` measures the vectors of the space."""
    reads: dict[type, Callable[..., Any]] = {Texts: partial(search.resolve, conn, now=now, faults=faults)}
    measure = None
    if space is not None and verified is not None:
        measure = reads[Distances] = partial(
            search.rounded_distances, conn, space, faults=faults, copies=copies, verified=verified
        )
        reads[Nearest] = partial(
            search.by_vector, conn, space, now=now, faults=faults, copies=copies, verified=verified
        )
    reads[WithTurns] = partial(search.resolve_with_turns, conn, measure=measure, now=now, faults=faults)
    steps, answer = begin(), None
    while True:
        try:
            read = steps.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        answer = reads[type(read)](*read)
