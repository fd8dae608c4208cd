"""The one place where a request is allowed or refused, wherever it comes from."""

from __future__ import annotations

from typing import Any

from agentctx.access.turns import Turns
from agentctx.service.base import Service
from agentctx.service.calls import OperationCall, Proceed, wrapped
from agentctx.service.guard_rules import Grounds


def guarded(service: Service, grounds: Grounds) -> Service:
    """The service that does for each peer what is granted to it, in turns between users and processes."""
    return wrapped(service, _Guard(grounds))


class _Guard:
    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds
        self._turns = Turns()

    async def __call__(self, call: OperationCall, proceed: Proceed, /) -> Any:
        operation, peer = call.operation, call.peer
        refusal = await operation.rule(self._grounds, operation.policy.right, peer, call.arguments)
        if refusal is not None:
            return refusal
        if not operation.takes_turn:
            return await proceed(call)
        async with self._turns.turn(peer.uid, peer.pid):
            return await proceed(call)
