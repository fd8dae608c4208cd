"""The service's reads and operators' actions with their rows in the audit trail."""

from __future__ import annotations

from collections.abc import Iterable

from agentctx.errors import InvalidInput
from agentctx.service.backup import Backups
from agentctx.service.base import Listing, Peer
from agentctx.service.entries import Entries
from agentctx.service.injections import Injections
from agentctx.service.reembed import Reembed
from agentctx.service.status import Operations
from agentctx.service.transfer import Transfer
from agentctx.service.trust import Revoking
from agentctx.service.views import audit_page, audit_verdict
from agentctx.storage.audit import AuditQuery, Head, parse_head
from agentctx.storage.injections import Visible, everything
from agentctx.storage.transfer import Selection
from agentctx.wire import (
    AuditPage,
    AuditVerdict,
    BackupReply,
    BackupRequest,
    ContextReply,
    ContextRequest,
    EntryPage,
    EntryView,
    ExplainReply,
    ExplainRequest,
    ExportReply,
    InjectionList,
    InjectionView,
    ReembedAction,
    ReembedReply,
    ReleaseReply,
    RevokeReply,
    RevokeRequest,
    SearchReply,
    SearchRequest,
    VersionPage,
)

MOST_IDS = 20
"""Ids of one answer that are recorded; all are counted."""


class Audited(Entries, Injections, Operations, Backups, Transfer, Reembed, Revoking):
    """What other users read is recorded once they have got it, by ids and counts; never what they asked."""

    async def audit(self, wanted: AuditQuery, peer: Peer) -> AuditPage:  # noqa: ARG002
        await self._parts.audit.flush()
        rows = await self._parts.storage.audit.page(wanted)
        return audit_page(rows, limit=wanted.limit)

    async def verify_audit(self, peer: Peer, *, noted: str | None = None) -> AuditVerdict:  # noqa: ARG002
        await self._parts.audit.flush()
        return audit_verdict(await self._parts.storage.audit.verify(noted_head(noted)))

    async def get(self, entry_id: str, peer: Peer, *, version: int | None = None) -> EntryView:
        view = await super().get(entry_id, peer, version=version)
        self._parts.audit.note_read(peer, "read", namespace=view.namespace, subject=view.id)
        return view

    async def list_entries(self, wanted: Listing, peer: Peer) -> EntryPage:
        found = await super().list_entries(wanted, peer)
        self._note_found(peer, "list", wanted.namespace, [entry.id for entry in found.entries])
        return found

    async def versions(
        self, entry_id: str, peer: Peer, *, limit: int, cursor: str | None = None
    ) -> VersionPage:
        found = await super().versions(entry_id, peer, limit=limit, cursor=cursor)
        namespace = next((each.namespace for each in found.versions), None)
        self._parts.audit.note_read(
            peer, "versions", namespace=namespace, subject=entry_id, versions=len(found.versions)
        )
        return found

    async def search(self, request: SearchRequest, peer: Peer) -> SearchReply:
        reply = await super().search(request, peer)
        self._note_found(peer, "search", request.namespace, [hit.id for hit in reply.results])
        return reply

    async def context(self, request: ContextRequest, peer: Peer) -> ContextReply:
        reply = await super().context(request, peer)
        self._note_found(peer, "context", request.namespace, [hit.id for hit in reply.results])
        return reply

    async def explain(self, request: ExplainRequest, peer: Peer) -> ExplainReply:
        reply = await super().explain(request, peer)
        self._parts.audit.note_read(peer, "explain", namespace=request.namespace, subject=request.entry[:64])
        return reply

    async def injection(self, injection_id: str, peer: Peer) -> InjectionView:
        view = await super().injection(injection_id, peer)
        self._parts.audit.note_read(peer, "injection", namespace=view.namespace, subject=view.id)
        return view

    async def injections(self, limit: int, peer: Peer, *, visible: Visible = everything) -> InjectionList:
        found = await super().injections(limit, peer, visible=visible)
        # Not which: whoever is no admin gets only those of them that are his own.
        self._parts.audit.note_read(peer, "injections")
        return found

    async def export(
        self, selection: Selection, peer: Peer, *, cursor: str | None, limit: int
    ) -> ExportReply:
        reply = await super().export(selection, peer, cursor=cursor, limit=limit)
        namespace = selection.namespaces[0] if len(selection.namespaces) == 1 else None
        self._note_found(peer, "export", namespace, [each.entry.id for each in reply.entries])
        return reply

    async def backup(self, request: BackupRequest, peer: Peer) -> BackupReply:
        reply = await super().backup(request, peer)
        named = request.file is not None
        await self._parts.audit.note_action(peer, "backup", entries=reply.entries, named=named)
        return reply

    async def reembed(self, action: ReembedAction, peer: Peer) -> ReembedReply:
        reply = await super().reembed(action, peer)
        model = reply.answering.model if reply.answering else None
        await self._parts.audit.note_action(peer, "reembed", action=action, model=model)
        return reply

    async def revoke(self, request: RevokeRequest, peer: Peer) -> RevokeReply:
        reply = await super().revoke(request, peer)
        if reply.revocation is not None:
            await self._parts.audit.note_action(
                peer,
                "revoke",
                subject=str(reply.revocation),
                criteria=sorted(reply.criteria),
                entries=reply.entries,
                derived=reply.derived,
                forget=reply.forget,
            )
        return reply

    async def undo_revocation(self, revocation_id: int, peer: Peer) -> ReleaseReply:
        reply = await super().undo_revocation(revocation_id, peer)
        await self._parts.audit.note_action(
            peer, "undo_revocation", subject=str(revocation_id), released=reply.released
        )
        return reply

    async def release(self, entry_id: str, peer: Peer) -> ReleaseReply:
        reply = await super().release(entry_id, peer)
        await self._parts.audit.note_action(peer, "release", subject=entry_id, released=reply.released)
        return reply

    def _note_found(self, peer: Peer, kind: str, namespace: str | None, ids: Iterable[str]) -> None:
        found = list(dict.fromkeys(ids))
        self._parts.audit.note_read(peer, kind, namespace=namespace, entries=len(found), ids=found[:MOST_IDS])


def noted_head(text: str | None) -> Head | None:
    """Raises InvalidInput: it is no head of a chain."""
    if text is None:
        return None
    head = parse_head(text)
    if head is None:
        raise InvalidInput(
            "this is no head of an audit trail", hint="Give the `head` of an earlier `agentctx audit verify`."
        )
    return head
