"""Routes of the audit trail, for the operator."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, FastAPI, Query, Request

from agentctx.server.errors import documented
from agentctx.server.peer import request_peer
from agentctx.service.base import Service
from agentctx.storage.audit import AuditQuery
from agentctx.wire import API_PREFIX, AuditPage, AuditVerdict, AuditVerifyRequest

DEFAULT_LIST = 50
MAX_LIST = 1_000
LONGEST_NAME = 200


class AuditRoutes:
    """Handlers over a `Service`; each reads the peer and passes the request on."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, app: FastAPI) -> None:
        path = f"{API_PREFIX}/audit"
        app.add_api_route(path, self.audit, methods=["GET"], responses=documented(403))
        app.add_api_route(
            f"{path}/verify", self.verify_audit, methods=["POST"], responses=documented(403, 504)
        )

    async def audit(
        self,
        request: Request,
        limit: Annotated[int, Query(ge=1, le=MAX_LIST)] = DEFAULT_LIST,
        before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
        kind: Annotated[str | None, Query(max_length=LONGEST_NAME)] = None,
        subject: Annotated[str | None, Query(max_length=LONGEST_NAME)] = None,
    ) -> AuditPage:
        """List the rows of the audit trail, newest first: what was done, by whom and to what."""
        wanted = AuditQuery(limit=limit, before=before, kind=kind, subject=subject)
        return await self._service.audit(wanted, request_peer(request))

    async def verify_audit(
        self, request: Request, body: Annotated[AuditVerifyRequest, Body()]
    ) -> AuditVerdict:
        """Follow the chain of the audit trail: is each row as it was written, and is none missing."""
        return await self._service.verify_audit(request_peer(request), noted=body.head)
