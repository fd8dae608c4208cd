"""A FastAPI route that reads body and query strictly. In OpenAPI it is an ordinary route."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, partial
from typing import Annotated, Any, get_args, get_origin

from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from agentctx.errors import InvalidInput
from agentctx.host.lean_imports import hide_modules
from agentctx.server.problems import describe_validation_errors, quoted
from agentctx.server.strict_json import decode


class StrictRoute(APIRoute):
    """Refuses unknown and repeated query parameters. The body is strict JSON whatever its Content-Type,
    because `curl -d` claims to send a form.

    FastAPI describes the route but does not call the handler: its dependency machinery, which no handler
    uses, would take as long as the rest of a save on the event loop. It describes a route when the first
    request arrives, or the document is requested: describing all of them takes a tenth of the daemon's start.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        # What finding a route takes; `__getattr__` adds the rest.
        self.path, self.endpoint, self.name = path, endpoint, given["name"]
        self.methods = set(given["methods"])
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self.include_in_schema, self.openapi_extra = True, None
        self._describe: Callable[[], None] | None = partial(super().__init__, path, endpoint, **given)

    def __getattr__(self, name: str) -> Any:
        describe = self.__dict__.pop("_describe", None)
        if describe is None:
            raise AttributeError(name)
        extra = self.openapi_extra
        with hide_modules("pydantic.v1"):  # FastAPI imports it only to reject its models
            describe()
        self.openapi_extra = extra
        return getattr(self, name)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises `InvalidInput` when the request does not match the route's parameters."""
        if scope["method"] not in (self.methods or ()):
            await super().handle(scope, receive, send)  # answers 405 with the allowed methods
            return
        request, status = Request(scope, receive, send), _Status()
        arguments = await self._arguments(request)
        if name := self.dependant.request_param_name:
            arguments[name] = request
        if name := self.dependant.response_param_name:
            arguments[name] = status
        reply = await self.endpoint(**arguments)
        kind: Any = type(reply)
        content = _encoder(kind)(reply)
        headers = [(b"content-length", b"%d" % len(content)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _arguments(self, request: Request) -> dict[str, Any]:
        if request.scope["query_string"]:
            check_query(request.query_params, self._repeatable)
        raw = await body_of(request.receive)  # even if none is expected: half a request must do nothing
        arguments = {}
        if self.body_field is not None:
            arguments[self.dependant.body_params[0].name] = decode(raw, self._body)
        problems: list[Any] = []
        for place, field, value in self._given(request):
            if value is None and not field.field_info.is_required():
                arguments[field.name] = field.default
            else:
                arguments[field.name], wrong = field.validate(value, loc=(place, field.alias))
                problems += wrong
        if problems:
            raise InvalidInput(describe_validation_errors(problems))
        return arguments

    def _given(self, request: Request) -> Iterator[tuple[str, Any, Any]]:
        """Yield each parameter's place, field and raw value; the value is None if absent."""
        known = self.dependant
        for field in known.path_params:
            yield "path", field, request.path_params[field.alias]
        for field in known.query_params:
            query, many = request.query_params, self._repeatable[field.alias]
            yield "query", field, (query.getlist(field.alias) or None) if many else query.get(field.alias)
        for field in known.header_params:
            yield "header", field, request.headers.get(field.alias)

    @cached_property
    def _repeatable(self) -> dict[str, bool]:
        fields = self.dependant.query_params
        return {field.alias: _takes_many(field.field_info.annotation) for field in fields}

    @cached_property
    def _body(self) -> TypeAdapter[Any]:
        """Built when the first body arrives, so that it does not slow down the daemon's start."""
        assert self.body_field is not None  # noqa: S101 - asked for where there is one
        return _adapter(self.body_field.field_info)


class _Status(Response):
    """The status of a reply, which a handler may change; nothing else of it is used."""

    def __init__(self) -> None:
        self.status_code = 200


async def body_of(receive: Receive) -> bytes:
    """Return the body of a request once all of it has arrived.

    Raises:
        ClientDisconnect: the client has gone away.
    """
    parts: list[bytes] = []
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
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
    """Return the function that encodes replies of a type; FastAPI would try each type of the route."""
    return TypeAdapter(kind).dump_json


def _takes_many(annotation: object) -> bool:
    return any(get_origin(kind) is list for kind in (annotation, *get_args(annotation)))


def _adapter(info: FieldInfo) -> TypeAdapter[Any]:
    annotation: Any = info.annotation
    # The discriminator of a union is in the metadata of the annotation.
    return TypeAdapter(Annotated[annotation, *info.metadata] if info.metadata else annotation)
