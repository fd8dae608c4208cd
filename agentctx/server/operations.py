"""Routes of operators: status and the queue."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, FastAPI, Request

from agentctx.server.errors import documented
from agentctx.server.peer import request_peer
from agentctx.service.base import Service
from agentctx.wire import API_PREFIX, DrainRequest, QueueReply, RetryReply, StatusReply


class OperationRoutes:
    """Handlers over a `Service`; each reads the peer and passes the request on."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, app: FastAPI) -> None:
        app.add_api_route(f"{API_PREFIX}/status", self.status, methods=["GET"], responses=documented())
        app.add_api_route(f"{API_PREFIX}/queue", self.queue, methods=["GET"], responses=documented())
        app.add_api_route(
            f"{API_PREFIX}/queue/retry", self.retry, methods=["POST"], responses=documented(507)
        )
        app.add_api_route(f"{API_PREFIX}/queue/drain", self.drain, methods=["POST"], responses=documented())

    async def status(self, request: Request) -> StatusReply:
        """Tell what the daemon holds, does and costs."""
        return await self._service.status(request_peer(request))

    async def queue(self, request: Request) -> QueueReply:
        """Tell which embeddings are still owed, and which were given up."""
        return await self._service.queue(request_peer(request))

    async def retry(self, request: Request) -> RetryReply:
        """Put the buried jobs back into the queue."""
        return await self._service.retry(request_peer(request))

    async def drain(self, request: Request, body: Annotated[DrainRequest, Body()]) -> QueueReply:
        """Wait, for at most `timeout_s` seconds, until everything that is due is embedded."""
        return await self._service.drain(body, request_peer(request))
