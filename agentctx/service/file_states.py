"""Entries whose file could not be seen, is gone or says something else."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from agentctx import wire
from agentctx.config.schema import Settings
from agentctx.errors import TooLarge
from agentctx.service.base import Peer
from agentctx.service.parts import Parts, PartsHolder
from agentctx.storage.records import Saved
from agentctx.stores.fields import check_namespace
from agentctx.times import parse_duration

MAX_REASON_CHARS: Final = 300


class FileStates(PartsHolder):
    """The part of the service that marks entries by what was found about their files."""

    async def mark_files(self, request: wire.MarkFilesRequest, peer: Peer) -> wire.MarkFilesReply:  # noqa: ARG002
        if sum(len(each.entries) for each in request.marks) > wire.MAX_MARKED:
            raise TooLarge(
                "Too many entries in one request.", hint=f"Send at most {wire.MAX_MARKED} at a time."
            )
        marks = [replace(each, reason=each.reason[:MAX_REASON_CHARS]) for each in request.marks]
        namespace = check_namespace(request.namespace)
        marked = await self._parts.storage.trust.mark_files(namespace, marks)
        self._parts.settler.notify()
        return wire.MarkFilesReply(entries=marked)


class WithdrawnEntries(PartsHolder):
    """Erases withdrawn entries whose time is over."""

    async def sweep(self) -> int:
        """Erase some; return how many, 0 if none is left."""
        kept_ms = withdrawn_ms(self._parts.settings)
        before = 0 if kept_ms is None else self._parts.clock() - kept_ms
        erased = await self._parts.storage.trust.expire_withdrawn(before=before)
        if erased:
            self._parts.settler.notify()
        return erased


async def given_back(parts: Parts, saved: Saved, namespace: str) -> Saved:
    """Let an entry that was saved return to the answers if only its file kept it out."""
    await parts.storage.trust.mark_files(namespace, [wire.FileMark(entries=[saved.id], state="present")])
    parts.settler.notify()
    known = (await parts.storage.trust.provenance([saved.id])).get(saved.id)
    return replace(saved, quarantined=known is not None and known.quarantined is not None)


def withdrawn_ms(settings: Settings) -> int | None:
    """Return how long withdrawn entries are kept; None: for ever."""
    ttl = settings.ingest.withdrawn_ttl
    return parse_duration(ttl) if ttl else None
