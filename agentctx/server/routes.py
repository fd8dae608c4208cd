"""Routes of the operations, generated from their table and from the signatures of the contract."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Annotated, Any, TypeAlias, get_type_hints

from fastapi import Body, FastAPI, Request
from starlette.convertors import StringConvertor, register_url_convertor

from agentctx.server.errors import documented
from agentctx.server.peer import request_peer
from agentctx.service.base import Service
from agentctx.service.operations import OPERATIONS, Operation
from agentctx.wire import API_PREFIX


class _ReceiptId(StringConvertor):
    """Any name except `explain`, which is a path of its own with other methods."""

    regex = "(?!explain$)[^/]+"


register_url_convertor("receipt_id", _ReceiptId())

Handler: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]
"""A coroutine function that FastAPI calls; its signature and docstring describe the route."""


def add_operations(
    app: FastAPI,
    service: Service,
    handlers: Mapping[str, Handler],
    responses: Mapping[str, dict[int | str, dict[str, Any]]],
) -> None:
    """Add a route for every operation.

    `handlers` replaces the handlers whose HTTP shape differs from the contract, `responses` extends OpenAPI.
    """
    for operation in OPERATIONS.values():
        route = operation.route
        handler = handlers.get(operation.name) or handler_of(operation, service)
        app.add_api_route(
            API_PREFIX + route.path,
            handler,
            methods=[route.method],
            name=operation.name,
            responses={**responses.get(operation.name, {}), **documented(*route.errors)},
        )


def handler_of(operation: Operation, service: Service) -> Handler:
    """Return a handler with the contract's parameters: a dataclass is the body, others are path and query."""
    contract = getattr(Service, operation.name)

    async def handle(http: Request, **arguments: Any) -> Any:
        return await getattr(service, operation.name)(**arguments, peer=request_peer(http))

    handle.__name__ = operation.name
    handle.__doc__ = summary_of(operation)
    handle.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        list(_parameters(contract)), return_annotation=get_type_hints(contract)["return"]
    )
    return handle


def summary_of(operation: Operation) -> str:
    """Return the contract's docstring of an operation, without its errors."""
    text = inspect.getdoc(getattr(Service, operation.name)) or ""
    return text.partition("\n\nRaises:")[0]


def _parameters(contract: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(contract, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    for name, parameter in inspect.signature(contract).parameters.items():
        if name in {"self", "peer"}:
            continue
        hint = hints[name]
        shown = Annotated[hint, Body()] if is_dataclass(hint) else hint
        yield inspect.Parameter(name, keyword, default=parameter.default, annotation=shown)
    yield inspect.Parameter("http", keyword, annotation=Request)
