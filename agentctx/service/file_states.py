"""Entries whose file could not be seen, is gone or says something else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from agentctx import wire
from agentctx.errors import TooLarge
from agentctx.service import audit_notes as notes
from agentctx.service import guard_rules as rules
from agentctx.service.access.policy import WRITE
from agentctx.service.base import CurrentSettings, Peer
from agentctx.service.operations import Operation
from agentctx.service.release_worker import ReleaseWorker
from agentctx.service.stores.fields import check_namespace
from agentctx.storage.records import SaveOutcome
from agentctx.storage.trust_storage import TrustStorage
from agentctx.times import Clock, parse_duration

MAX_REASON_CHARS: Final = 300


@dataclass(frozen=True)
class FileStates:
    """Marks entries by what was found about their files, and erases withdrawn ones whose time is over."""

    trust: TrustStorage
    release_worker: ReleaseWorker
    settings: CurrentSettings
    clock: Clock

    @property
    def kept_ms(self) -> int | None:
        """How long withdrawn entries are kept; None: for ever."""
        ttl = self.settings.value.ingest.withdrawn_ttl
        return parse_duration(ttl) if ttl else None

    @Operation("POST", "/file-states", WRITE, rules.in_request, audit=notes.marked_files, errors=(507,))
    async def mark_files(self, request: wire.MarkFilesRequest, peer: Peer) -> wire.MarkFilesReply:  # noqa: ARG002
        """Mark entries whose file could not be seen, is gone or says something else, or unmark them.

        Stale entries stay in the answers. Withdrawn ones leave them, keep everything said about them, and
        return when they are unmarked.
        """
        if sum(len(each.entries) for each in request.marks) > wire.MAX_MARKED:
            raise TooLarge(
                "Too many entries in one request.", hint=f"Send at most {wire.MAX_MARKED} at a time."
            )
        marks = [replace(each, reason=each.reason[:MAX_REASON_CHARS]) for each in request.marks]
        namespace = check_namespace(request.namespace)
        marked = await self.trust.mark_files(namespace, marks)
        self.release_worker.notify()
        return wire.MarkFilesReply(entries=marked)

    async def give_back(self, saved: SaveOutcome, namespace: str) -> SaveOutcome:
        """Let an entry that was saved return to the answers if only its file kept it out."""
        await self.trust.mark_files(namespace, [wire.FileMark(entries=[saved.id], state="present")])
        self.release_worker.notify()
        known = (await self.trust.provenance([saved.id])).get(saved.id)
        return replace(saved, quarantined=known is not None and known.quarantined is not None)

    async def sweep(self) -> int:
        """Erase some withdrawn entries; return how many, 0 if none is left."""
        before = 0 if self.kept_ms is None else self.clock() - self.kept_ms
        erased = await self.trust.expire_withdrawn(before=before)
        if erased:
            self.release_worker.notify()
        return erased
