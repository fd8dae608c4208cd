"""Provenance and quarantine: which function runs in which connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from agentctx.storage.sqlite import provenance, quarantine, revocation, settling
from agentctx.storage.sqlite.connections import CHECK_TIMEOUT_S, SqliteConnections
from agentctx.storage.trust import Provenance, Revoked, Settled, Source, Undone


class SqliteTrust(SqliteConnections):
    """See the protocol for each method."""

    async def provenance(self, entries: Sequence[str]) -> Mapping[str, Provenance]:
        return await self._readers.run(partial(provenance.known, entries=entries))

    async def revoke(self, source: Source, *, principal: int, dry_run: bool) -> Revoked:
        if dry_run:
            return await self._readers.run(
                partial(revocation.count, source=source), timeout_s=CHECK_TIMEOUT_S
            )
        revoked, held = await self._writer.run(
            partial(revocation.revoke, source=source, principal=principal, now=self._clock())
        )
        if held:
            # Whoever keeps copies of what was given keeps none of these.
            self._tidying.note_held(held)
        return revoked

    async def quarantined(self) -> int:
        return await self._readers.run(quarantine.count)

    async def release(self, entry: str) -> bool:
        return await self._writer.run(partial(quarantine.release, entry_id=entry))

    async def undo_revocation(self, revocation_id: int) -> Undone:
        return await self._writer.run(partial(revocation.undo, revocation=revocation_id))

    async def forget_revoked(self, revocation_id: int) -> int:
        return await self._writer.run(partial(revocation.forget, revocation=revocation_id))

    async def settle(self, *, owed: bool, limit: int = 50) -> Settled:
        settled = await self._writer.run(partial(settling.settle, now=self._clock(), owed=owed, limit=limit))
        if settled.rows:
            self._tidying.note_deletion(settled.erased)
        return settled
