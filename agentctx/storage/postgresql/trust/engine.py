"""Provenance and quarantine."""

from __future__ import annotations

from functools import partial

from agentctx.storage.postgresql.connections import CHECK_TIMEOUT_S, PostgresqlPart, reads, writes
from agentctx.storage.postgresql.entries.chunks import Reservation
from agentctx.storage.postgresql.entries.engine import RESERVED_MS
from agentctx.storage.postgresql.trust import known, quarantine, revocation, settling
from agentctx.storage.trust import Revoked, Settled, Source


class PostgresqlTrust(PostgresqlPart):
    """`TrustStorage` on a PostgreSQL server."""

    provenance = reads(known.provenance)
    quarantined = reads(quarantine.count)
    release = writes(quarantine.release)
    undo_revocation = writes(revocation.undo)
    forget_revoked = writes(revocation.forget)

    async def revoke(self, source: Source, *, principal: int, dry_run: bool) -> Revoked:
        if dry_run:
            return await self.db.read(partial(revocation.count, source=source), CHECK_TIMEOUT_S)
        revoke = partial(revocation.revoke, source=source, principal=principal, now=self.db.clock())
        revoked, _ = await self.db.write(revoke, lambda done: self.db.erasures.note_held(done[1]))
        return revoked

    async def settle(self, *, owed: bool, limit: int = 50) -> Settled:
        now = self.db.clock()
        reserved = None
        if owed:
            reserved = Reservation(self.db.daemon, await self.db.server_ms(now) + RESERVED_MS)
        settle = partial(settling.settle, now=now, owed=reserved, limit=limit)
        return await self.db.write(settle, self._note_settled)

    def _note_settled(self, settled: Settled) -> None:
        if settled.rows:
            self.db.erasures.note_deletion(settled.erased)
