"""The daemon's audit trail: reads by other users, operators' actions, and the configuration.

The storage records saves and forgets itself, in their own transaction.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

import structlog
from pydantic import SecretStr

from agentctx import __version__
from agentctx.config.schema import AuditSettings, Settings
from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.service.audit_notes import AuditNote
from agentctx.service.base import Peer
from agentctx.service.write_behind import WriteBehind
from agentctx.storage.audit import AuditStorage, Event
from agentctx.times import Clock

log = structlog.get_logger("agentctx.audit")

CAPACITY: Final = 4_096
MS_PER_DAY: Final = 86_400_000
DIGEST_BYTES: Final = 8


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
        storage.saves = settings.enabled

    async def record(self, peer: Peer, note: AuditNote) -> None:
        """Record an operator's action before returning, or queue the record of another user's read."""
        if not self._settings.enabled:
            return
        event = Event(
            kind=note.kind,
            principal=peer.uid,
            namespace=note.namespace,
            subject=note.subject,
            detail=dict(note.detail),
        )
        if note.is_action:
            self._add_now(event)
            await self.flush()
        elif self._settings.reads and peer.uid not in self._trusted:
            self._add_now(event)

    def _add_now(self, event: Event) -> None:
        self.add(replace(event, at=self._clock()))

    async def note_settings(
        self, kind: str, settings: Settings, secret: Callable[[], Awaitable[bytes]]
    ) -> None:
        """Record the configuration at startup and when a reload has changed it.

        A failure to record it is logged and counted; the daemon continues.
        """
        if not self._settings.enabled:
            return
        try:
            key = await secret()
            digests = digests_of(settings, key)
            detail = {"version": __version__, "config": digest_of(sorted(digests.items()), key)}
            await self._storage.note_config(kind, digests, detail, only_changes=kind != "start")
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
