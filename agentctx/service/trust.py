"""Revoking sources and releasing quarantined entries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Final

import structlog

from agentctx.errors import DeadlineExceeded, InvalidInput, NotFound, StorageFailed
from agentctx.service.base import Peer
from agentctx.service.parts import PartsHolder
from agentctx.storage.trust import Source, TrustStorage
from agentctx.stores.redaction import redact_name
from agentctx.times import parse_time
from agentctx.wire import ReleaseReply, RevokeReply, RevokeRequest

log = structlog.get_logger("agentctx.trust")

ENTRIES_PER_STEP: Final = 50
"""Number of entries removed from or returned to the indexes per transaction, which blocks saves."""
LINGER_S: Final = 0.2
"""Delay that lets the caller's reply be sent first."""


class Settler:
    """Removes quarantined entries from the indexes and returns released ones to them, in the background."""

    def __init__(
        self,
        trust: TrustStorage,
        *,
        embed: bool,
        jobs_are_due: Callable[[], None],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._trust = trust
        self._sleep = sleep
        self._embed = embed
        self._jobs_are_due = jobs_are_due
        self._notified = asyncio.Event()

    def notify(self) -> None:
        """Signal that there may be work."""
        self._notified.set()

    async def run(self) -> None:
        """Do pending work until cancelled, starting with work left over from an earlier run."""
        self.notify()
        while True:
            await self._notified.wait()
            self._notified.clear()
            await self._sleep(LINGER_S)
            try:
                await self.settle()
            except (DeadlineExceeded, StorageFailed) as error:
                # The rows record the remaining work; the next request or start resumes it.
                log.warning("quarantine_not_settled", error=error.code, reason=error.message)

    async def settle(self) -> None:
        """Do all pending work. Raises `DeadlineExceeded` or `StorageFailed`."""
        began = time.monotonic()
        while (settled := await self._trust.settle(embed=self._embed, limit=ENTRIES_PER_STEP)).rows:
            if settled.jobs:
                self._jobs_are_due()
            # Answers already exclude these entries, so give way to saves and searches.
            await self._sleep(time.monotonic() - began)
            began = time.monotonic()


class Revoking(PartsHolder):
    """The part of the service for revoking sources."""

    async def revoke(self, request: RevokeRequest, peer: Peer) -> RevokeReply:
        source = self._source(request)
        if not source.criteria:
            raise InvalidInput(
                "This would revoke everything.",
                hint="Give an agent, a session, an origin or another criterion.",
            )
        trust = self._parts.storage.trust
        revoked = await trust.revoke(source, principal=peer.uid, dry_run=request.dry_run)
        if revoked.revocation is not None:
            if request.forget:
                await trust.forget_revoked(revoked.revocation)
            self._parts.settler.notify()
            log.info(
                "revoked", revocation=revoked.revocation, entries=revoked.entries, derived=revoked.derived
            )
        return RevokeReply(
            **asdict(revoked), criteria=source.criteria, forget=request.forget, dry_run=request.dry_run
        )

    async def undo_revocation(self, revocation_id: int, peer: Peer) -> ReleaseReply:  # noqa: ARG002
        undone = await self._parts.storage.trust.undo_revocation(revocation_id)
        self._parts.settler.notify()
        return ReleaseReply(
            released=undone.released,
            still_quarantined=undone.still_quarantined,
            revocations=list(undone.revocations),
        )

    async def release(self, entry_id: str, peer: Peer) -> ReleaseReply:  # noqa: ARG002
        if not await self._parts.storage.trust.release(entry_id):
            raise NotFound(
                f"Entry {entry_id!r} is not in quarantine.", hint="`agentctx list` marks quarantined entries."
            )
        self._parts.settler.notify()
        return ReleaseReply(released=1)

    def _source(self, request: RevokeRequest) -> Source:
        now = self._parts.clock()
        return Source(
            namespace=request.namespace,
            agent=redact_name(request.agent, self._parts.redactor)[0],
            session=redact_name(request.session, self._parts.redactor)[0],
            principal=request.principal,
            origin=request.origin,
            trust=request.trust,
            path=request.source,
            since=None if request.since is None else parse_time(request.since, now=now),
            until=None if request.until is None else parse_time(request.until, now=now),
        )
