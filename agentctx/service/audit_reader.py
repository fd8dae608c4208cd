"""Read and verify the audit trail."""

from __future__ import annotations

from dataclasses import dataclass

from agentctx import wire
from agentctx.errors import InvalidInput
from agentctx.service.audit import AuditTrail
from agentctx.service.base import Peer
from agentctx.service.views import audit_page, audit_verdict
from agentctx.storage.audit import AuditQuery, AuditStorage, Head, parse_head


@dataclass(frozen=True)
class AuditReader:
    """Reads the audit trail, and verifies it."""

    storage: AuditStorage
    trail: AuditTrail

    async def audit(self, wanted: AuditQuery, peer: Peer) -> wire.AuditPage:  # noqa: ARG002
        await self.trail.flush()
        rows = await self.storage.page(wanted)
        return audit_page(rows, limit=wanted.limit)

    async def verify_audit(self, request: wire.AuditVerifyRequest, peer: Peer) -> wire.AuditVerdict:  # noqa: ARG002
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
