"""Routes of revocations and of the quarantine."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, FastAPI, Path, Request

from agentctx.server.errors import documented
from agentctx.server.peer import request_peer
from agentctx.service.base import Service
from agentctx.wire import API_PREFIX, ReleaseReply, RevokeReply, RevokeRequest


class TrustRoutes:
    """Handlers over a `Service`; each reads the peer and passes the request on."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, app: FastAPI) -> None:
        revocations = f"{API_PREFIX}/revocations"
        app.add_api_route(revocations, self.revoke, methods=["POST"], responses=documented(507))
        app.add_api_route(
            f"{revocations}/{{revocation_id}}",
            self.undo_revocation,
            methods=["DELETE"],
            responses=documented(404, 507),
        )
        app.add_api_route(
            f"{API_PREFIX}/entries/{{entry_id}}/release",
            self.release,
            methods=["POST"],
            responses=documented(404, 507),
        )

    async def revoke(self, request: Request, body: Annotated[RevokeRequest, Body()]) -> RevokeReply:
        """Take a source, and all that was made of its entries, out of every answer, from this reply on."""
        return await self._service.revoke(body, request_peer(request))

    async def undo_revocation(
        self, request: Request, revocation_id: Annotated[int, Path(ge=1, le=2**63 - 1)]
    ) -> ReleaseReply:
        """Undo a revocation: what it alone held back comes into answers again."""
        return await self._service.undo_revocation(revocation_id, request_peer(request))

    async def release(self, request: Request, entry_id: str) -> ReleaseReply:
        """Let an entry out of quarantine, whatever put it there."""
        return await self._service.release(entry_id, request_peer(request))
