"""The single place where requests are allowed or refused, whatever their origin."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from agentctx.access.turns import Turns
from agentctx.service.base import Service
from agentctx.service.calls import OperationCall, wrapped
from agentctx.service.guard_rules import AccessContext
from agentctx.service.operations import OPERATIONS


def guarded(service: Service, context: AccessContext) -> Service:
    """Wrap the service so that each peer is limited to its grants, and users and processes take turns."""
    turns = Turns()

    def guard(call: OperationCall) -> AbstractAsyncContextManager[None]:
        return _Guard(call, context, turns)

    return wrapped(service, guard, OPERATIONS.values())


class _Guard(AbstractAsyncContextManager[None]):
    """One call that is checked by its rule and holds a turn, if the rule did not answer it.

    A class, because each save and question enters one: a generator would take twice as long.
    """

    def __init__(self, call: OperationCall, context: AccessContext, turns: Turns) -> None:
        self._call = call
        self._context = context
        self._peer = peer = call.peer
        self._turn = turns.turn(peer.uid, peer.pid) if call.operation.takes_turn else None

    async def __aenter__(self) -> None:
        call = self._call
        rule, right = call.operation.rule, call.operation.policy.right
        call.reply = await rule(self._context, right, self._peer, call.arguments)
        if call.reply is not None:
            self._turn = None
        if self._turn is not None:
            await self._turn.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        if self._turn is not None:
            await self._turn.__aexit__()
