"""A FastAPI route that reads its body and its query strictly. OpenAPI sees an ordinary route."""

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
    """Unknown and repeated query parameters are errors. The body is strict JSON whatever its Content-Type:
    `curl -d` says it sends a form.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        repeatable = {
            field.alias: _takes_many(field.field_info.annotation) for field in self.dependant.query_params
        }
        # Made when the first body comes: no start of the daemon waits for it.
        adapter = None if self.body_field is None else cache(partial(_adapter, self.body_field.field_info))

        async def handle_strictly(request: Request) -> Response:
            check_query(request.query_params, repeatable)
            raw = await request.body()  # also where none is expected: half a request must do nothing
            if adapter is None:
                return await handle(request)
            return await handle(_DecodedRequest(request, decode(raw, adapter())))

        return handle_strictly


class _DecodedRequest(Request):
    """Gives FastAPI the validated instance where it looks for parsed JSON. FastAPI looks there only if
    the request says it is JSON, or says nothing: so it says nothing.
    """

    def __init__(self, request: Request, instance: object) -> None:
        headers = [header for header in request.scope["headers"] if header[0] != b"content-type"]
        super().__init__({**request.scope, "headers": headers}, request.receive)
        self._instance = instance

    async def body(self) -> bytes:
        return b"{}"  # not empty is all that matters

    async def json(self) -> Any:
        return self._instance


def check_query(query: QueryParams, repeatable: Mapping[str, bool]) -> None:
    """Raises `InvalidInput` for a parameter the route does not have, or has only once.

    `repeatable` holds the route's parameters and whether each may be repeated.
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
    # The discriminator of a union is metadata beside the annotation.
    return TypeAdapter(Annotated[annotation, *info.metadata] if info.metadata else annotation)
