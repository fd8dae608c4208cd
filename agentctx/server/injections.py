"""Routes about injections: their receipts, and why an entry was not in one."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, FastAPI, Query, Request
from starlette.convertors import StringConvertor, register_url_convertor

from agentctx.server.errors import documented
from agentctx.server.peer import request_peer
from agentctx.service.base import Service
from agentctx.wire import API_PREFIX, ExplainReply, ExplainRequest, InjectionList, InjectionView

DEFAULT_LIST = 20
MAX_LIST = 1_000


class _ReceiptId(StringConvertor):
    """Any name but that of the path beside it, which has methods of its own."""

    regex = "(?!explain$)[^/]+"


register_url_convertor("receipt_id", _ReceiptId())


class InjectionRoutes:
    """Handlers over a `Service`; each reads the peer and passes the request on."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, app: FastAPI) -> None:
        path = f"{API_PREFIX}/injections"
        app.add_api_route(path, self.injections, methods=["GET"], responses=documented())
        app.add_api_route(f"{path}/explain", self.explain, methods=["POST"], responses=documented(504))
        app.add_api_route(
            f"{path}/{{injection_id:receipt_id}}", self.injection, methods=["GET"], responses=documented(404)
        )

    async def injections(
        self, request: Request, limit: Annotated[int, Query(ge=1, le=MAX_LIST)] = DEFAULT_LIST
    ) -> InjectionList:
        """List the receipts of the last injections, newest first."""
        return await self._service.injections(limit, request_peer(request))

    async def injection(self, request: Request, injection_id: str) -> InjectionView:
        """Show one receipt: what was found for an LLM call, and why it was injected or left out."""
        return await self._service.injection(injection_id, request_peer(request))

    async def explain(self, request: Request, body: Annotated[ExplainRequest, Body()]) -> ExplainReply:
        """Say why an entry is in the context for a question, or not, as things are now."""
        return await self._service.explain(body, request_peer(request))
