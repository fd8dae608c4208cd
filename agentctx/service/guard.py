"""The single place where calls are allowed or refused, whatever their origin."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar, cast

from agentctx.embedding.fair_queue import FairQueue
from agentctx.service.audit import AuditTrail
from agentctx.service.guard_rules import AccessContext
from agentctx.service.operations import Method, operation_of

P = ParamSpec("P")
T = TypeVar("T")


class Guard:
    """Limits each peer to its grants, serves users in turn, and records what they did."""

    def __init__(self, context: AccessContext, trail: AuditTrail) -> None:
        self.access = context.access
        self._context = context
        self._trail = trail
        self._queue = FairQueue()

    def __call__(self, method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        """Return an operation's method with all of this around each call."""
        work = cast("Method", method)
        operation, parameters = operation_of(work), signature(method).parameters
        defaults = {name: each.default for name, each in parameters.items() if each.default is not each.empty}

        @wraps(method)
        async def call(*args: P.args, **given: P.kwargs) -> T:
            arguments: dict[str, Any] = {**defaults, **dict(zip(parameters, args, strict=False)), **given}
            peer = arguments["peer"]
            reply: Any = await operation.rule(self._context, operation.policy.right, peer, arguments)
            if reply is None:
                is_scheduled = operation.is_scheduled
                async with self._queue.admit(peer.uid) if is_scheduled else nullcontext():
                    reply = await work(**arguments)
                    note = operation.audit(arguments, reply) if operation.audit else None
                    if note is not None:
                        await self._trail.record(peer, note)
            return cast("T", reply)

        return call
