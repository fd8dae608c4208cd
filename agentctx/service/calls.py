"""Composes the service from its parts, and wraps its operations."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, Self, TypeAlias, cast

from agentctx.service.base import Peer, Service
from agentctx.service.operations import OPERATIONS, Operation

UNGUARDED: Final = ("metrics", "degraded", "not_ready")
"""Calls without a peer; `server.gate` controls access to them."""


@dataclass(slots=True)
class OperationCall:
    """A call of an operation, with its arguments by name; a wrapper may replace an argument.

    `reply` is None until the call is answered.
    """

    operation: Operation
    arguments: dict[str, Any]
    reply: Any = None

    @property
    def peer(self) -> Peer:
        return cast("Peer", self.arguments["peer"])


Wrapper: TypeAlias = Callable[[OperationCall], AbstractAsyncContextManager[None]]
"""Surrounds every call of an operation. A wrapper that sets the reply on entry answers the call itself."""


def composed(parts: Iterable[object]) -> Service:
    """Compose one service from the operations that the parts implement.

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


def wrapped(service: Service, wrapper: Wrapper, operations: Iterable[Operation]) -> Service:
    """Return the service with the wrapper around these operations, outside of existing wrappers."""
    there = [name for name in (*OPERATIONS, *UNGUARDED) if hasattr(service, name)]
    methods = {name: getattr(service, name) for name in there}
    for operation in operations:
        if operation.name in methods:
            methods[operation.name] = _WrappedMethod.around(methods[operation.name], operation, wrapper)
    return cast("Service", SimpleNamespace(**methods))


class _WrappedMethod:
    """An operation with all its wrappers, which share one `OperationCall` per call."""

    def __init__(
        self, operation: Operation, method: Callable[..., Awaitable[Any]], wrappers: tuple[Wrapper, ...]
    ) -> None:
        _, *self._names = inspect.signature(getattr(Service, operation.name)).parameters
        self._operation = operation
        self.method = method
        self.wrappers = wrappers
        self._around = wrappers[0] if len(wrappers) == 1 else partial(_nested, wrappers)

    @classmethod
    def around(cls, method: Any, operation: Operation, wrapper: Wrapper) -> Self:
        if isinstance(method, cls):
            return cls(operation, method.method, (wrapper, *method.wrappers))
        return cls(operation, method, (wrapper,))

    async def __call__(self, *args: Any, **given: Any) -> Any:
        arguments = dict(zip(self._names, args, strict=False)) | given
        call = OperationCall(self._operation, arguments)
        async with self._around(call):
            if call.reply is None:
                call.reply = await self.method(**call.arguments)
        return call.reply


@asynccontextmanager
async def _nested(wrappers: Sequence[Wrapper], call: OperationCall) -> AsyncIterator[None]:
    async with AsyncExitStack() as around:
        for wrapper in wrappers:
            await around.enter_async_context(wrapper(call))
            if call.reply is not None:
                break
        yield
