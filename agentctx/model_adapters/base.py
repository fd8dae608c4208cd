"""What a model is to us: one call that answers, one that streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol, TypeAlias

ModelRequest: TypeAlias = Any
"""A body as the model's API has it, messages and parameters in one object; or a bare list of messages."""
ModelEvent: TypeAlias = Mapping[str, Any]
"""One piece of a streamed reply, as the API has it."""


class ModelAdapter(Protocol):
    """A model that can be asked. A request is never changed by it.

    An adapter that speaks one API says so with an attribute `dialect`; others get theirs from the code that
    wraps them.
    """

    async def complete(self, request: ModelRequest, /) -> Any:
        """The whole reply, as the API has it."""
        ...

    def stream(self, request: ModelRequest, /) -> AsyncIterator[Any]:
        """The pieces of the reply as they arrive (`ModelEvent` for the APIs). Ending early ends the call."""
        ...
