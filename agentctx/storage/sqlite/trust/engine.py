"""Provenance and quarantine: which function runs in which connection."""

from __future__ import annotations

from functools import partial

from agentctx.storage.sqlite.connections import CHECK_TIMEOUT_S, SqlitePart, reads, writes
from agentctx.storage.sqlite.trust import provenance, quarantine, revocation, settling
from agentctx.storage.trust import Revoked, Settled, Source


class SqliteTrust(SqlitePart):
    """`TrustStorage` on the SQLite file."""

    provenance = reads(provenance.known)
    quarantined = reads(quarantine.count)
    release = writes(quarantine.release)
    undo_revocation = writes(revocation.undo)
    forget_revoked = writes(revocation.forget)

    async def revoke(self, source: Source, *, principal: int, dry_run: bool) -> Revoked:
        if dry_run:
            return await self.db.readers.run(
                partial(revocation.count, source=source), timeout_s=CHECK_TIMEOUT_S
            )
        revoked, held = await self.db.writer.run(
            partial(revocation.revoke, source=source, principal=principal, now=self.db.clock())
        )
        if held:
            # Drop cached copies of these.
            self.db.tidying.note_held(held)
        return revoked

    async def settle(self, *, owed: bool, limit: int = 50) -> Settled:
        settled = await self.db.writer.run(
            partial(settling.settle, now=self.db.clock(), owed=owed, limit=limit)
        )
        if settled.rows:
            self.db.tidying.note_deletion(settled.erased)
        return settled
