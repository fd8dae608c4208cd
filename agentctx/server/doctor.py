"""Routes of `agentctx doctor`: examine the database and the model, and repair."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request

from agentctx.server.peer import request_peer
from agentctx.service.base import Examination, Service
from agentctx.wire import DoctorReply

Only = Annotated[list[str] | None, Query(description="Only these checks or groups. Default: all.")]
Offline = Annotated[bool, Query(description="Ask no embedding provider outside the daemon.")]


class DoctorHandlers:
    """Handlers whose HTTP shape differs from the contract: the selection is in the query."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def doctor(self, request: Request, only: Only = None, offline: Offline = False) -> DoctorReply:
        """Examine the daemon's database, queue and embedding provider without changing anything."""
        return await self._service.doctor(_examination(only, offline), request_peer(request))

    async def doctor_fix(self, request: Request, only: Only = None, offline: Offline = False) -> DoctorReply:
        """Examine and repair what can be repaired; report the repairs and the state after them."""
        return await self._service.doctor_fix(_examination(only, offline), request_peer(request))


def _examination(only: list[str] | None, offline: bool) -> Examination:
    return Examination(only=tuple(only or ()), offline=offline)
