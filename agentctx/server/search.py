"""Routes of questions: the passages, and the ready-made block."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, FastAPI, Request

from agentctx.server.errors import documented
from agentctx.server.peer import request_peer
from agentctx.service.base import Service
from agentctx.wire import API_PREFIX, ContextReply, ContextRequest, SearchReply, SearchRequest


class SearchRoutes:
    """Handlers over a `Service`; each reads the peer and passes the request on."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, app: FastAPI) -> None:
        app.add_api_route(f"{API_PREFIX}/search", self.search, methods=["POST"], responses=documented(504))
        app.add_api_route(f"{API_PREFIX}/context", self.context, methods=["POST"], responses=documented(504))

    async def search(self, request: Request, body: Annotated[SearchRequest, Body()]) -> SearchReply:
        """Find the closest passages."""
        return await self._service.search(body, request_peer(request))

    async def context(self, request: Request, body: Annotated[ContextRequest, Body()]) -> ContextReply:
        """Make the block that an LLM call would get."""
        return await self._service.context(body, request_peer(request))
