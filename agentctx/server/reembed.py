"""Routes of the change of the model."""

from __future__ import annotations

from fastapi import FastAPI, Request

from agentctx.server.errors import documented
from agentctx.server.peer import request_peer
from agentctx.service.base import Service
from agentctx.wire import API_PREFIX, ReembedAction, ReembedReply


class ReembedRoutes:
    """Handlers over a `Service`; each reads the peer and passes the request on."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, app: FastAPI) -> None:
        path = f"{API_PREFIX}/reembed"
        app.add_api_route(path, self.reembed_status, methods=["GET"], responses=documented())
        app.add_api_route(
            f"{path}/{{action}}", self.reembed, methods=["POST"], responses=documented(404, 409, 507)
        )

    async def reembed_status(self, request: Request) -> ReembedReply:
        """Tell how far the model beside the one that answers is, and how the two compare."""
        return await self._service.reembed_status(request_peer(request))

    async def reembed(self, request: Request, action: ReembedAction) -> ReembedReply:
        """Agree to the cost of the next model, switch to it, go back to the former one, or drop that."""
        return await self._service.reembed(action, request_peer(request))
