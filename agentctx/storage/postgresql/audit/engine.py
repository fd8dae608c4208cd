"""The audit trail of all daemons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentctx.storage.audit import AuditedChange, Event
from agentctx.storage.postgresql.audit import audit_events, chains
from agentctx.storage.postgresql.connections import (
    CHECK_TIMEOUT_S,
    PostgresqlConnections,
    PostgresqlPart,
    reads,
)


class PostgresqlAudit(PostgresqlPart):
    """`AuditStorage` on a PostgreSQL server."""

    def __init__(self, connections: PostgresqlConnections) -> None:
        super().__init__(connections)
        self.saves = True

    def audited(self, kind: str, principal: int | None) -> AuditedChange | None:
        """Return how to record a change of an entry, or None to record nothing."""
        return AuditedChange(kind, principal) if self.saves else None

    async def add(self, events: Sequence[Event]) -> None:
        now = self.db.clock()
        await self.db.write(lambda conn: audit_events.add(conn, events, now=now))

    async def note_config(
        self, kind: str, digests: Mapping[str, str], detail: Mapping[str, Any], *, only_changes: bool
    ) -> None:
        daemon, now = self.db.daemon, self.db.clock()
        await self.db.write(
            lambda conn: chains.note_config(
                conn, daemon, kind, digests, detail, only_changes=only_changes, now=now
            )
        )

    page = reads(chains.page)
    verify = reads(chains.verify, timeout_s=CHECK_TIMEOUT_S)

    async def prune(self, *, before: int, keep: int) -> int:
        now = self.db.clock()
        return await self.db.write(lambda conn: chains.prune(conn, before=before, keep=keep, now=now))
