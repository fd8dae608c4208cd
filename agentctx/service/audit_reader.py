"""Read and verify the audit trail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from agentctx import wire
from agentctx.errors import InvalidInput
from agentctx.service.access.policy import DAEMON
from agentctx.service.audit import AuditTrail
from agentctx.service.base import PAGE, Limit, Peer
from agentctx.service.operations import Operation
from agentctx.service.views import audit_page, audit_verdict
from agentctx.storage.audit import AuditQuery, AuditStorage, Head, parse_head

LONGEST_NAME: Final = 200


@dataclass(frozen=True)
class AuditReader:
    """Reads the audit trail, and verifies it."""

    storage: AuditStorage
    trail: AuditTrail

    @Operation("GET", "/audit", DAEMON, errors=(403,))
    async def audit(
        self,
        peer: Peer,  # noqa: ARG002
        *,
        limit: Limit = PAGE,
        before: Annotated[int | None, Field(ge=1, le=2**53)] = None,
        kind: Annotated[str | None, Field(max_length=LONGEST_NAME)] = None,
        subject: Annotated[str | None, Field(max_length=LONGEST_NAME)] = None,
    ) -> wire.AuditPage:
        """List the rows of the audit trail, newest first: what was done, by whom and to what."""
        await self.trail.flush()
        rows = await self.storage.page(AuditQuery(limit=limit, before=before, kind=kind, subject=subject))
        return audit_page(rows, limit=limit)

    @Operation("POST", "/audit/verify", DAEMON, errors=(403, 504))
    async def verify_audit(self, request: wire.AuditVerifyRequest, peer: Peer) -> wire.AuditVerdict:  # noqa: ARG002
        """Verify from the hash chain of the audit trail that all rows are present and unchanged."""
        await self.trail.flush()
        return audit_verdict(await self.storage.verify(noted_head(request.head)))


def noted_head(text: str | None) -> Head | None:
    """Parse the head of a chain as an earlier verification printed it. Raises `InvalidInput`."""
    if text is None:
        return None
    head = parse_head(text)
    if head is None:
        raise InvalidInput(
            "Invalid audit head.", hint="Use the `head` of an earlier `agentctx audit verify`."
        )
    return head
