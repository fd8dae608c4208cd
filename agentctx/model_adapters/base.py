"""The interface of a model: one method that completes, one that streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol, TypeAlias

ModelRequest: TypeAlias = Any
"""A body in the model's API format, messages and parameters in one object; or a bare list of messages."""
ModelEvent: TypeAlias = Mapping[str, Any]
"""One piece of a streamed reply, in the API's format."""


class ModelAdapter(Protocol):
    """A model that can be called. It never changes a request.

    An adapter for one API declares its format in an attribute `dialect`; others get theirs from the code that
    wraps them.
    """

    async def complete(self, request: ModelRequest, /) -> Any:
        """Return the whole reply, in the API's format."""
        ...

    def stream(self, request: ModelRequest, /) -> AsyncIterator[Any]:
        """Yield the reply's pieces as they arrive (`ModelEvent` for the APIs). Ending early ends the call."""
        ...
