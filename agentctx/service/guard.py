"""The single place where requests are allowed or refused, whatever their origin."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentctx.access.turns import Turns
from agentctx.service.base import Service
from agentctx.service.calls import OperationCall, wrapped
from agentctx.service.guard_rules import AccessContext


def guarded(service: Service, context: AccessContext) -> Service:
    """Wrap the service so that each peer is limited to its grants, and users and processes take turns."""
    turns = Turns()

    @asynccontextmanager
    async def guard(call: OperationCall) -> AsyncIterator[None]:
        operation, peer = call.operation, call.peer
        call.reply = await operation.rule(context, operation.policy.right, peer, call.arguments)
        if call.reply is not None or not operation.takes_turn:
            yield
            return
        async with turns.turn(peer.uid, peer.pid):
            yield

    return wrapped(service, guard)
