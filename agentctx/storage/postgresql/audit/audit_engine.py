"""The audit trail of all daemons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from agentctx.storage.audit import Event
from agentctx.storage.postgresql.audit import chain_set, chains
from agentctx.storage.postgresql.audit.audit import Chain, Deed
from agentctx.storage.postgresql.connections import (
    CHECK_TIMEOUT_S,
    WRITERS,
    PostgresqlConnections,
    PostgresqlPart,
    reads,
)


class PostgresqlAudit(PostgresqlPart):
    """`AuditStorage` on a PostgreSQL server."""

    def __init__(self, connections: PostgresqlConnections) -> None:
        super().__init__(connections)
        self.saves = True
        self._secret: bytes | None = None
        self._names = [f"{connections.daemon}/{number}" for number in range(WRITERS)]
        self._next_name = cycle(self._names)

    def deed(self, kind: str, principal: int | None) -> Deed | None:
        """How a change of an entry is recorded; None: not at all."""
        return Deed(kind, principal) if self.saves else None

    async def chain(self) -> Chain:
        """The one for the next deed. Raises as a write."""
        if self._secret is None:
            self._secret = await self.db.write(lambda conn: chain_set.begin(conn, self._names))
        return Chain(next(self._next_name), self._secret)

    async def add(self, events: Sequence[Event]) -> None:
        chain, now = await self.chain(), self.db.clock()
        await self.db.write(lambda conn: chains.add(conn, chain, events, now=now))

    async def note_config(
        self, kind: str, digests: Mapping[str, str], detail: Mapping[str, Any], *, only_changes: bool
    ) -> None:
        chain, daemon, now = await self.chain(), self.db.daemon, self.db.clock()
        await self.db.write(
            lambda conn: chains.note_config(
                conn, chain, daemon, kind, digests, detail, only_changes=only_changes, now=now
            )
        )

    page = reads(chains.page)
    verify = reads(chains.verify, timeout_s=CHECK_TIMEOUT_S)

    async def prune(self, *, before: int, keep: int) -> int:
        now = self.db.clock()
        return await self.db.write(lambda conn: chains.prune(conn, before=before, keep=keep, now=now))
