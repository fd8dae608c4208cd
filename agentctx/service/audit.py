"""The daemon's audit trail, written and read: reads by other users, operators' actions, the configuration.

The storage records saves and forgets itself, in their own transaction.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, Final

import structlog
from pydantic import Field, SecretStr

from agentctx import __version__, wire
from agentctx.config.schema import AuditSettings, Settings
from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.service.access.policy import DAEMON
from agentctx.service.audit_notes import AuditNote
from agentctx.service.base import PAGE, Limit, Peer
from agentctx.service.operations import Operation
from agentctx.service.views import audit_page, audit_verdict
from agentctx.service.write_behind import WriteBehind
from agentctx.storage.audit import AuditQuery, AuditStorage, Event
from agentctx.times import Clock

log = structlog.get_logger("agentctx.audit")

CAPACITY: Final = 4_096
MS_PER_DAY: Final = 86_400_000
DIGEST_BYTES: Final = 8
LONGEST_NAME: Final = 200


class AuditTrail(WriteBehind[Event]):
    """Writes reads to the audit trail after their replies, and operators' actions before them.

    Rows that do not fit, or that the table refuses, are dropped and counted; the next row records how many.
    """

    def __init__(
        self,
        storage: AuditStorage,
        settings: AuditSettings,
        *,
        clock: Clock,
        capacity: int = CAPACITY,
        linger: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        super().__init__(capacity=capacity, linger=linger)
        self._storage = storage
        self._settings = settings
        self._clock = clock
        self._trusted = frozenset({0, os.geteuid()})
        self._unrecorded = 0
        self.dropped = 0
        """Rows dropped since the start."""
        self._digests: Mapping[str, str] = {}
        storage.saves = settings.enabled

    async def record(self, peer: Peer, note: AuditNote) -> None:
        """Record an operator's action before returning, or queue the record of another user's read."""
        if not self._settings.enabled:
            return
        event = Event(
            at=self._clock(),
            kind=note.kind,
            principal=peer.uid,
            namespace=note.namespace,
            subject=note.subject,
            detail=dict(note.detail),
        )
        if note.is_action:
            self.add(event)
            await self.flush()
        elif self._settings.reads and peer.uid not in self._trusted:
            self.add(event)

    async def note_settings(
        self, kind: str, settings: Settings, secret: Callable[[], Awaitable[bytes]]
    ) -> None:
        """Record the configuration at the start, and the settings that a reload has changed.

        A failure to record it is logged and counted; the daemon continues.
        """
        if not self._settings.enabled:
            return
        try:
            key = await secret()
            before, self._digests = self._digests, digests_of(settings, key)
            digests = sorted(self._digests.items())
            changed = [name for name, digest in digests if before.get(name, digest) != digest]
            if changed or kind == "start":
                detail = {"version": __version__, "config": digest_of(digests, key), "changed": changed}
                await self._storage.add([Event(kind=kind, principal=None, detail=detail)])
        except (DeadlineExceeded, StorageFailed) as error:
            self._drop(1, error.message)

    async def sweep(self) -> int:
        """Remove some of the rows over the age or count limit; return how many were removed."""
        before = self._clock() - self._settings.days * MS_PER_DAY
        return await self._storage.prune(before=before, keep=self._settings.max_rows)

    async def _write(self, batch: list[Event]) -> None:
        unrecorded = self._unrecorded
        lost = [Event(kind="dropped", principal=None, detail={"rows": unrecorded})] if unrecorded else []
        await self._storage.add([*lost, *batch])
        self._unrecorded -= unrecorded

    def _drop(self, count: int, reason: str) -> None:
        self.dropped += count
        self._unrecorded += count
        log.warning("audit_rows_dropped", rows=count, dropped=self.dropped, reason=reason)


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
    async def verify_audit(self, peer: Peer) -> wire.AuditVerdict:  # noqa: ARG002
        """Verify from the hash chain of the audit trail that all rows are present and unchanged."""
        await self.trail.flush()
        return audit_verdict(await self.storage.verify())


def digests_of(settings: Settings, secret: bytes) -> dict[str, str]:
    """Return a keyed digest of every setting by key; it reveals that a secret changed, but not the secret."""
    return {key: digest_of(value, secret) for key, value in _leaves(settings.model_dump())}


def digest_of(value: object, secret: bytes) -> str:
    plain = value.get_secret_value() if isinstance(value, SecretStr) else value
    text = repr(plain).encode("utf-8", "surrogatepass")
    return blake2b(text, key=secret, digest_size=DIGEST_BYTES).hexdigest()


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
