"""A FastAPI route that reads body and query strictly. In OpenAPI it is an ordinary route."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import cache, partial
from typing import Annotated, Any, get_args, get_origin

from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from agentctx.errors import InvalidInput
from agentctx.server.problems import quoted
from agentctx.server.strict_json import decode


class StrictRoute(APIRoute):
    """Refuses unknown and repeated query parameters. The body is strict JSON whatever its Content-Type,
    because `curl -d` claims to send a form.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        repeatable = {
            field.alias: _takes_many(field.field_info.annotation) for field in self.dependant.query_params
        }
        # Built when the first body arrives, so that it does not slow down the daemon's start.
        adapter = None if self.body_field is None else cache(partial(_adapter, self.body_field.field_info))

        async def handle_strictly(request: Request) -> Response:
            check_query(request.query_params, repeatable)
            raw = await request.body()  # also without an expected body: half a request must do nothing
            if adapter is None:
                return await handle(request)
            return await handle(_DecodedRequest(request, decode(raw, adapter())))

        return handle_strictly


class _DecodedRequest(Request):
    """Returns the validated instance as the parsed JSON. The Content-Type is removed, because FastAPI calls
    `json` only if the type is JSON or missing.
    """

    def __init__(self, request: Request, instance: object) -> None:
        headers = [header for header in request.scope["headers"] if header[0] != b"content-type"]
        super().__init__({**request.scope, "headers": headers}, request.receive)
        self._instance = instance

    async def body(self) -> bytes:
        return b"{}"  # must only be non-empty

    async def json(self) -> Any:
        return self._instance


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


def _takes_many(annotation: object) -> bool:
    return any(get_origin(kind) is list for kind in (annotation, *get_args(annotation)))


def _adapter(info: FieldInfo) -> TypeAdapter[Any]:
    annotation: Any = info.annotation
    # The discriminator of a union is in the metadata of the annotation.
    return TypeAdapter(Annotated[annotation, *info.metadata] if info.metadata else annotation)
