"""A route that reads body and query strictly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, cached_property
from inspect import signature
from typing import Any

from pydantic import TypeAdapter
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agentctx.errors import InvalidInput
from agentctx.server.parameters import Parameter, parameters_of, read_values
from agentctx.server.problems import quoted
from agentctx.server.strict_json import decode
from agentctx.service.operations import Operation
from agentctx.wire import API_PREFIX


class StrictRoute(Route):
    """Refuses unknown and repeated query parameters. The body is strict JSON whatever its Content-Type,
    because `curl -d` claims to send a form.

    The handler's signature is read when the first request arrives: reading all of them, and building the
    validators, would take longer than the rest of the daemon's start.

    Args:
        handler: a coroutine function that takes the request, and the parameters of its signature by name.
    """

    def __init__(self, handler: Callable[..., Any], operation: Operation) -> None:
        super().__init__(API_PREFIX + operation.path, handler, name=handler.__name__)
        self.operation = operation
        self.methods = {operation.http_method}  # a Route would add HEAD

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises `InvalidInput` when the request does not match the route's parameters."""
        if scope["method"] not in (self.methods or ()):
            await super().handle(scope, receive, send)  # answers 405 with the allowed methods
            return
        request, status = Request(scope, receive, send), _Status()
        arguments = await self._arguments(request)
        if self._chooses_status:
            arguments["response"] = status
        reply = await self.endpoint(request, **arguments)
        kind: Any = type(reply)
        content = _encoder(kind)(reply)
        headers = [(b"content-length", b"%d" % len(content)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _arguments(self, request: Request) -> dict[str, Any]:
        if request.scope["query_string"]:
            check_query(request.query_params, self._repeatable)
        raw = await body_of(request.receive)  # even if none is expected: half a request must do nothing
        body = self._body
        arguments = {} if body is None else {body.name: decode(raw, body.adapter)}
        return arguments | read_values(request, self._outside_body)

    @cached_property
    def parameters(self) -> list[Parameter]:
        """What the handler expects from the request."""
        return list(parameters_of(self.endpoint, self.param_convertors))

    @cached_property
    def _body(self) -> Parameter | None:
        return next((each for each in self.parameters if each.location == "body"), None)

    @cached_property
    def _outside_body(self) -> list[Parameter]:
        return [each for each in self.parameters if each.location != "body"]

    @cached_property
    def _repeatable(self) -> dict[str, bool]:
        return {each.alias: each.is_repeatable for each in self.parameters if each.location == "query"}

    @cached_property
    def _chooses_status(self) -> bool:
        return "response" in signature(self.endpoint).parameters


class _Status(Response):
    """The status of a reply, which a handler may change; nothing else of it is used."""

    def __init__(self) -> None:
        self.status_code = 200


async def body_of(receive: Receive) -> bytes:
    """Return the body of a request once all of it has arrived. Raises the errors of `LimitedBody`."""
    parts: list[bytes] = []
    more = True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def check_query(query: QueryParams, repeatable: Mapping[str, bool]) -> None:
    """Raise `InvalidInput` for an unknown parameter, or a repeated one that may appear only once.

    `repeatable` maps the route's parameters to whether they may be repeated.
    """
    seen = set()
    for name, _ in query.multi_items():
        if name not in repeatable:
            known = ", ".join(repeatable) or "none"
            raise InvalidInput(f"Unknown parameter {quoted(name)}.", hint=f"Known: {known}.")
        if name in seen and not repeatable[name]:
            raise InvalidInput(f"The parameter {quoted(name)} appears twice.")
        seen.add(name)


@cache
def _encoder(kind: Any) -> Callable[[Any], bytes]:
    """Return the function that encodes replies of a type."""
    return TypeAdapter(kind).dump_json
