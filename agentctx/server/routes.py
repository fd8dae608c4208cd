"""Routes of the operations, generated from their table and from the signatures of the contract."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import wraps
from typing import Any, TypeAlias

from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request

from agentctx.server.peer import request_peer
from agentctx.server.strict_route import StrictRoute
from agentctx.service.base import Service
from agentctx.service.operations import OPERATIONS, Operation
from agentctx.wire import API_PREFIX


class _ReceiptId(StringConvertor):
    """Any name except `explain`, which is a path of its own with other methods."""

    regex = "(?!explain$)[^/]+"


register_url_convertor("receipt_id", _ReceiptId())

Handler: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]
"""A coroutine function that a route calls; its signature and docstring describe the route."""


def operation_routes(service: Service, handlers: Mapping[str, Handler]) -> Iterator[StrictRoute]:
    """Yield a route for every operation.

    `handlers` replaces the handlers whose HTTP shape differs from the contract.
    """
    for operation in OPERATIONS.values():
        handler = handlers.get(operation.name) or handler_of(operation, service)
        yield StrictRoute(
            API_PREFIX + operation.route.path, handler, method=operation.route.method, name=operation.name
        )


def handler_of(operation: Operation, service: Service) -> Handler:
    """Return a handler with the signature and docstring of the contract."""

    @wraps(getattr(Service, operation.name))
    async def handle(http: Request, /, **arguments: Any) -> Any:
        return await getattr(service, operation.name)(**arguments, peer=request_peer(http))

    return handle


def summary_of(handler: Handler) -> str:
    """Return the docstring of a handler, without its errors."""
    return (inspect.getdoc(handler) or "").partition("\n\nRaises:")[0]
