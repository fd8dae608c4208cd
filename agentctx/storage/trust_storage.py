"""Provenance and quarantine: who follows which steps, and what is forgotten in memory afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from agentctx.storage import quarantine, review, revocation, supersession
from agentctx.storage.steps import Execute, Follower, Statement, Steps
from agentctx.storage.trust import (
    NO_PROVENANCE,
    Provenance,
    RevocationResult,
    SettledRows,
    Source,
    UndoneRevocation,
)
from agentctx.wire import FileMark, RememberMode


@dataclass(frozen=True, slots=True)
class FindProvenance(Statement[Mapping[str, Provenance]]):
    """Asks for the provenance of the entries that have any."""

    entries: Sequence[str]


def _provenance(entries: Sequence[str], *, now: int) -> Steps[Mapping[str, Provenance]]:
    known = dict((yield from FindProvenance(entries)))
    for older, superseded in (yield from supersession.chains(entries, now=now)).items():
        known[older] = replace(known.get(older, NO_PROVENANCE), superseded=superseded)
    return known


class TrustStorage:
    """Provenance and quarantine on either engine."""

    def __init__(self, connections: Follower) -> None:
        self.db = connections

    async def provenance(self, entries: Sequence[str]) -> Mapping[str, Provenance]:
        """Return the provenance of each entry for which anything is known."""
        return await self.db.look(partial(_provenance, entries, now=self.db.clock()))

    async def revoke(self, source: Source, *, principal: int, dry_run: bool) -> RevocationResult:
        """Quarantine every live entry of a source, and everything derived from them, in one transaction.

        With `dry_run`, only count them.
        """
        now = self.db.clock()
        steps = partial(revocation.revoke, source, principal=principal, now=now, dry_run=dry_run)
        if dry_run:
            return (await self.db.look(steps, is_long=True))[0]
        return (await self.db.change(steps, self._note_hidden))[0]

    async def quarantined(self) -> int:
        """Return the number of entries in quarantine."""
        return await self.db.look(quarantine.count)

    async def release(self, entry: str) -> bool:
        """Release an entry from quarantine, whatever the reason; return False if it was not in quarantine."""
        return await self.db.change(partial(quarantine.release, entry))

    async def keep(self, entry: str, version: int = 1, *, always: bool = False) -> bool:
        """Let an entry into the answers that waits for a review, unless other reasons keep it out.

        Return False if it does not wait, or another `version` is live than the one that was seen. With
        `always`, nothing waits any more that its agent captures in its namespace from now on.
        """
        return await self.db.change(partial(review.keep, entry, version, always=always, now=self.db.clock()))

    async def set_capture_mode(self, namespace: str, agent: str, mode: RememberMode) -> bool:
        """Say whether an agent's captures wait; False if there are none. What waits already still does."""
        values = (mode, self.db.clock(), namespace, agent)
        return bool(await self.db.change(lambda: iter(Execute(review.SET_MODE, values))))

    async def captures(self) -> review.CapturesByAgent:
        """Return whose captures wait, and how many do."""
        return await self.db.look(review.captures)

    async def expire_waiting(self, *, before: int, limit: int = 50) -> int:
        """Erase up to `limit` entries that have waited since before this time; return how many."""
        steps = partial(review.expire, before=before, limit=limit, now=self.db.clock())
        erased: list[str] = await self.db.change(steps, self._note_erased)
        return len(erased)

    async def undo_revocation(self, revocation_id: int) -> UndoneRevocation:
        """Release the entries that only this revocation keeps in quarantine.

        Raises:
            NotFound: the revocation does not exist.
        """
        return await self.db.change(partial(revocation.undo, revocation_id))

    async def forget_revoked(self, revocation_id: int) -> int:
        """Schedule all entries of a revocation for erasure; return how many. Raises `NotFound`."""
        return await self.db.change(partial(revocation.forget, revocation_id))

    async def mark_files(self, namespace: str, marks: Sequence[FileMark]) -> int:
        """Mark the namespace's entries that come from files, or unmark any; return how many of these exist.

        Withdrawn entries leave the answers at once, and return when they are unmarked or stale.
        """
        steps = partial(quarantine.mark_files, namespace, marks, now=self.db.clock())
        return (await self.db.change(steps, self._note_hidden))[0]

    async def expire_withdrawn(self, *, before: int, limit: int = 50) -> int:
        """Erase up to `limit` entries withdrawn before this time, except revoked ones; return how many.

        A revoked entry is what keeps its file, once it is back, out of the answers.
        """
        steps = partial(quarantine.expire_withdrawn, before=before, limit=limit, now=self.db.clock())
        erased: list[str] = await self.db.change(steps, self._note_erased)
        return len(erased)

    async def settle(self, *, embed: bool, limit: int = 50) -> SettledRows:
        """Remove up to `limit` quarantined entries from the indexes, return released ones, or erase them."""
        daemon = self.db.daemon if embed else None
        steps = partial(quarantine.settle, now=self.db.clock(), daemon=daemon, limit=limit)
        return await self.db.change(steps, self._note_settled)

    def _note_hidden(self, done: tuple[object, Sequence[str]]) -> None:
        if done[1]:
            self.db.notes.note_quarantined(done[1])

    def _note_erased(self, erased: list[str]) -> None:
        if erased:
            self.db.notes.note_deletion(erased)

    def _note_settled(self, settled: SettledRows) -> None:
        if settled.rows:
            self.db.notes.note_deletion(settled.erased)
