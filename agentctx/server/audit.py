"""Routes of the audit trail, for the operator."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request

from agentctx.server.peer import request_peer
from agentctx.service.base import Service
from agentctx.storage.audit import AuditQuery
from agentctx.wire import AuditPage

DEFAULT_LIST = 50
MAX_LIST = 1_000
LONGEST_NAME = 200


class AuditHandlers:
    """Handler whose HTTP shape differs from the contract: the filters are in the query."""

    def __init__(self, service: Service) -> None:
        self._service = service

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
