"""The route that lists the receipts of injections."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request

from agentctx.server.peer import request_peer
from agentctx.service.base import Service
from agentctx.wire import InjectionList

DEFAULT_LIST = 20
MAX_LIST = 1_000


class InjectionHandlers:
    """Handler whose HTTP shape differs from the contract: the limit is in the query."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def injections(
        self, request: Request, limit: Annotated[int, Query(ge=1, le=MAX_LIST)] = DEFAULT_LIST
    ) -> InjectionList:
        """List the receipts of the last injections, newest first."""
        return await self._service.injections(limit, request_peer(request))
