"""The route of backups."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, FastAPI, Request

from agentctx.server.errors import documented
from agentctx.server.peer import request_peer
from agentctx.service.base import Service
from agentctx.wire import API_PREFIX, BackupReply, BackupRequest


class BackupRoutes:
    """Handlers over a `Service`; each reads the peer and passes the request on."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, app: FastAPI) -> None:
        app.add_api_route(
            f"{API_PREFIX}/backup", self.backup, methods=["POST"], responses=documented(403, 507)
        )

    async def backup(self, request: Request, body: Annotated[BackupRequest, Body()]) -> BackupReply:
        """Write a backup and verify it, while everything goes on. It may take minutes.

        Only the daemon's own user may name the file; without one it goes into the folder of backups.
        """
        return await self._service.backup(body, request_peer(request))
