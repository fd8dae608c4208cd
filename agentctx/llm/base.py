"""The interface of a model: one method that completes, one that streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from agentctx.errors import InvalidInput
from agentctx.llm.dialects.base import Dialect
from agentctx.llm.dialects.openai_chat import OpenAIChat

ModelRequest: TypeAlias = Any
"""A body in the model's API format, messages and parameters in one object; or a bare list of messages."""


class ModelAdapter(Protocol):
    """A model that can be called. It never changes a request.

    An adapter for one API declares its format in an attribute `dialect`; others get theirs from the code that
    wraps them.
    """

    async def complete(self, request: ModelRequest, /) -> Any:
        """Return the whole reply, in the API's format."""

    def stream(self, request: ModelRequest, /) -> AsyncIterator[Any]:
        """Yield the reply's pieces as they arrive, in the API's format. Ending early ends the call."""


class FunctionModelAdapter:
    """A `ModelAdapter` that calls `await complete(messages, **parameters)`, with OpenAI chat messages.

    A request is `{"messages": [...], ...}`, whose other fields are the parameters, or a bare list of
    messages. The reply is what the function returns. The optional `stream` is an async generator function
    with the same arguments.
    """

    dialect: Dialect = OpenAIChat()

    def __init__(
        self,
        complete: Callable[..., Awaitable[Any]],
        stream: Callable[..., AsyncIterator[Any]] | None = None,
    ) -> None:
        self._complete = complete
        self._stream = stream

    async def complete(self, request: ModelRequest, /) -> Any:
        messages, parameters = _arguments(request)
        return await self._complete(messages, **parameters)

    def stream(self, request: ModelRequest, /) -> AsyncIterator[Any]:
        """Raises InvalidInput if no streaming function was given."""
        if self._stream is None:
            raise InvalidInput(
                "This model does not stream.", hint="Pass FunctionModelAdapter a second function that does."
            )
        messages, parameters = _arguments(request)
        return self._stream(messages, **parameters)


def _arguments(request: ModelRequest) -> tuple[Any, dict[str, Any]]:
    if not isinstance(request, Mapping):
        return request, {}
    if "messages" not in request:
        raise InvalidInput("The request has no messages.", hint='Use {"messages": [...], ...}.')
    return request["messages"], {name: value for name, value in request.items() if name != "messages"}
