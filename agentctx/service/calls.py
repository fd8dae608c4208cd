"""Calls of operations: a service composed of parts, and wrappers around every operation of the table."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, Protocol, cast

from agentctx.service.base import Peer, Service
from agentctx.service.operations import OPERATIONS, Operation

UNGUARDED: Final = ("metrics", "degraded", "not_ready")
"""Asked without a peer: `server.gate` lets in only those who may read them."""


@dataclass(slots=True)
class OperationCall:
    """One operation with its arguments by name; a wrapper may replace an argument."""

    operation: Operation
    arguments: dict[str, Any]

    @property
    def peer(self) -> Peer:
        return cast("Peer", self.arguments["peer"])


Proceed = Callable[[OperationCall], Awaitable[Any]]


class Wrapper(Protocol):
    """What happens around every call of an operation."""

    async def __call__(self, call: OperationCall, proceed: Proceed, /) -> Any: ...


def composed(parts: Iterable[object]) -> Service:
    """One service of the operations that the parts implement.

    Raises:
        LookupError: no part implements an operation.
    """
    holders = list(parts)
    names = [*OPERATIONS, *UNGUARDED]
    return cast("Service", SimpleNamespace(**{name: _implementation(holders, name) for name in names}))


def _implementation(holders: Iterable[object], name: str) -> Any:
    for holder in holders:
        if (method := getattr(holder, name, None)) is not None:
            return method
    raise LookupError(f"no part of the service implements {name!r}")


def wrapped(service: Service, wrapper: Wrapper) -> Service:
    """The same service with the wrapper around every operation."""
    there = [name for name in (*OPERATIONS, *UNGUARDED) if hasattr(service, name)]
    methods = {name: getattr(service, name) for name in there}
    for name in OPERATIONS.keys() & methods.keys():
        methods[name] = _wrapped(OPERATIONS[name], methods[name], wrapper)
    return cast("Service", SimpleNamespace(**methods))


def _wrapped(operation: Operation, method: Callable[..., Any], wrapper: Wrapper) -> Callable[..., Any]:
    _, *parameters = inspect.signature(getattr(Service, operation.name)).parameters.values()
    signature = inspect.Signature(parameters)

    async def proceed(call: OperationCall) -> Any:
        return await method(**call.arguments)

    async def call_operation(*args: Any, **given: Any) -> Any:
        return await wrapper(OperationCall(operation, signature.bind(*args, **given).arguments), proceed)

    return call_operation
