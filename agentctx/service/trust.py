"""Revoke sources and release quarantined entries."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import structlog

from agentctx import wire
from agentctx.errors import InvalidInput, NotFound
from agentctx.service import audit_notes as notes
from agentctx.service.access.policy import DAEMON
from agentctx.service.backup import Backups
from agentctx.service.base import Peer, RevocationId
from agentctx.service.operations import Operation
from agentctx.service.release_worker import ReleaseWorker
from agentctx.service.stores.fields import check_namespace
from agentctx.service.stores.redaction import redact_name
from agentctx.storage.trust import Source
from agentctx.storage.trust_storage import TrustStorage
from agentctx.text.redaction.redactor import Redactor
from agentctx.times import Clock, parse_time

log = structlog.get_logger("agentctx.trust")


@dataclass(frozen=True)
class Revocations:
    """Revokes sources, and lets entries out of quarantine."""

    trust: TrustStorage
    release_worker: ReleaseWorker
    redactor: Redactor
    backups: Backups
    clock: Clock

    # Entries derived from a source may be in any namespace.
    @Operation("POST", "/revocations", DAEMON, audit=notes.revoked, errors=(507,))
    async def revoke(self, request: wire.RevokeRequest, peer: Peer) -> wire.RevokeReply:
        """Exclude a source, and everything derived from its entries, from all answers after this reply."""
        for name in ("namespace", "agent", "session", "source", "since", "until"):
            value = getattr(request, name)
            if value is not None and not value.strip():
                raise InvalidInput(
                    f"The criterion {name} is empty.", hint="Leave it out, or name what is to be revoked."
                )
        source = self._source(request)
        if not source.criteria:
            raise InvalidInput(
                "This would revoke everything.",
                hint="Give an agent, a session, an origin or another criterion.",
            )
        revoked = await self.trust.revoke(source, principal=peer.uid, dry_run=request.dry_run)
        if revoked.revocation is not None:
            if request.forget:
                await self.trust.forget_revoked(revoked.revocation)
            self.release_worker.notify()
            log.info(
                "revoked", revocation=revoked.revocation, entries=revoked.entries, derived=revoked.derived
            )
        return wire.RevokeReply(
            **asdict(revoked),
            criteria=source.criteria,
            forget=request.forget,
            dry_run=request.dry_run,
            **(await self.backups.holding() if request.forget else {}),
        )

    @Operation(
        "DELETE", "/revocations/{revocation_id}", DAEMON, audit=notes.revocation_undone, errors=(404, 507)
    )
    async def undo_revocation(self, revocation_id: RevocationId, peer: Peer) -> wire.ReleaseReply:  # noqa: ARG002
        """Undo a revocation. Entries that nothing else keeps in quarantine return to answers."""
        undone = await self.trust.undo_revocation(revocation_id)
        self.release_worker.notify()
        return wire.ReleaseReply(
            released=undone.released,
            still_quarantined=undone.still_quarantined,
            revocations=list(undone.revocations),
        )

    @Operation("POST", "/entries/{entry_id}/release", DAEMON, audit=notes.released, errors=(404, 507))
    async def release(self, entry_id: str, peer: Peer) -> wire.ReleaseReply:  # noqa: ARG002
        """Release an entry from quarantine, whatever the reason for it."""
        if not await self.trust.release(entry_id):
            raise NotFound(
                f"Entry {entry_id!r} is not in quarantine.",
                hint="`agentctx list --all` marks quarantined entries. `agentctx review` shows what waits.",
            )
        self.release_worker.notify()
        return wire.ReleaseReply(released=1)

    def _source(self, request: wire.RevokeRequest) -> Source:
        now = self.clock()
        if request.namespace is not None:
            check_namespace(request.namespace)
        return Source(
            namespace=request.namespace,
            agent=redact_name(request.agent, self.redactor)[0],
            session=redact_name(request.session, self.redactor)[0],
            principal=request.principal,
            origin=request.origin,
            trust=request.trust,
            path=request.source,
            since=None if request.since is None else parse_time(request.since, now=now),
            until=None if request.until is None else parse_time(request.until, now=now),
        )
