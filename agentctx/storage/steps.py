"""Steps: what a change of the memory does is decided once, in generators without I/O; an engine follows them.

A generator of steps yields statements, receives the engine's answer to each, and returns its result:

    found = yield from FindTarget(draft.namespace, draft.collection, draft.key)

An engine has a function for every statement, and follows the steps of one change in one transaction.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Generic, TypeAlias, TypeVar

A_co = TypeVar("A_co", covariant=True)
T = TypeVar("T")


class Statement(Generic[A_co]):
    """A request to an engine, which is answered with an `A_co`. Statements are frozen dataclasses."""

    __slots__ = ()

    def __iter__(self) -> Generator[Statement[Any], Any, A_co]:
        answer: A_co = yield self
        return answer


Steps: TypeAlias = Generator[Statement[Any], Any, T]
"""The decisions of one change, between the statements that it needs. An error of a statement ends them."""
