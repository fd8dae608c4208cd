"""The service behind what is granted: the one place where a request is allowed or refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from agentctx.access.control import AccessControl, denied
from agentctx.access.grants import Right, Rights
from agentctx.access.policy import OPERATIONS
from agentctx.access.turns import Turns
from agentctx.errors import AccessDenied, AgentctxError, NotFound
from agentctx.service.base import Examination, Listing, Peer, Service
from agentctx.storage.audit import AuditQuery
from agentctx.storage.injections import Visible, everything
from agentctx.storage.transfer import Selection
from agentctx.wire import (
    AuditPage,
    AuditVerdict,
    BackupReply,
    BackupRequest,
    ContextReply,
    ContextRequest,
    DoctorReply,
    DrainRequest,
    EditRequest,
    EntryPage,
    EntryView,
    ExplainReply,
    ExplainRequest,
    ExportReply,
    ForgetReply,
    ImportRequest,
    InjectionList,
    InjectionView,
    OutcomeRequest,
    QueueReply,
    ReembedAction,
    ReembedReply,
    ReleaseReply,
    RetryReply,
    RevokeReply,
    RevokeRequest,
    SaveRequest,
    SaveResult,
    SearchReply,
    SearchRequest,
    StatusReply,
    VersionPage,
)

NamespaceLookup = Callable[[str], Awaitable[str | None]]
"""The namespace of a live entry, by its id; None when there is none."""


class GuardedService:
    """A `Service` that does for each peer what is granted to it, and asks another `Service` to do it.

    A namespace that is named and not granted is `AccessDenied`, whether it exists or not. The id of an entry
    or a receipt that the peer may not read is `NotFound`, in the words of an id that does not exist. An entry
    that may be read but not changed is `AccessDenied`: that it exists is no secret then.
    """

    def __init__(self, service: Service, access: AccessControl, namespace_of: NamespaceLookup) -> None:
        self._service = service
        self._access = access
        self._namespace_of = namespace_of
        self._turns = Turns()

    # What is asked about a namespace.

    async def save(
        self, requests: Sequence[SaveRequest], peer: Peer, *, idempotency_key: str | None = None
    ) -> list[SaveResult | AgentctxError]:
        await self._require_all("save", peer, (request.namespace for request in requests))
        async with self._turns.turn(peer.uid, peer.pid):
            return await self._service.save(requests, peer, idempotency_key=idempotency_key)

    async def list_entries(self, wanted: Listing, peer: Peer) -> EntryPage:
        await self._require("list_entries", peer, wanted.namespace)
        async with self._turns.turn(peer.uid, peer.pid):
            return await self._service.list_entries(wanted, peer)

    async def search(self, request: SearchRequest, peer: Peer) -> SearchReply:
        await self._require("search", peer, request.namespace)
        async with self._turns.turn(peer.uid, peer.pid):
            return await self._service.search(request, peer)

    async def context(self, request: ContextRequest, peer: Peer) -> ContextReply:
        await self._require("context", peer, request.namespace)
        async with self._turns.turn(peer.uid, peer.pid):
            return await self._service.context(request, peer)

    async def explain(self, request: ExplainRequest, peer: Peer) -> ExplainReply:
        rights = await self._require("explain", peer, request.namespace)
        if not rights.is_admin and await self._readable(rights, request.entry) is None:
            return _unknown(request.entry)
        async with self._turns.turn(peer.uid, peer.pid):
            return await self._service.explain(request, peer)

    async def export(
        self, selection: Selection, peer: Peer, *, cursor: str | None, limit: int
    ) -> ExportReply:
        selection = await self._exportable(selection, peer)
        async with self._turns.turn(peer.uid, peer.pid):
            return await self._service.export(selection, peer, cursor=cursor, limit=limit)

    async def import_entries(self, request: ImportRequest, peer: Peer) -> list[SaveResult | AgentctxError]:
        await self._require_all("import_entries", peer, (entry.namespace for entry in request.entries))
        async with self._turns.turn(peer.uid, peer.pid):
            return await self._service.import_entries(request, peer)

    # What is asked about an entry or a receipt, by its id.

    async def get(self, entry_id: str, peer: Peer, *, version: int | None = None) -> EntryView:
        await self._require_entry("get", peer, entry_id)
        async with self._turns.turn(peer.uid, peer.pid):
            return await self._service.get(entry_id, peer, version=version)

    async def versions(
        self, entry_id: str, peer: Peer, *, limit: int, cursor: str | None = None
    ) -> VersionPage:
        await self._require_entry("versions", peer, entry_id)
        async with self._turns.turn(peer.uid, peer.pid):
            return await self._service.versions(entry_id, peer, limit=limit, cursor=cursor)

    async def edit(self, entry_id: str, request: EditRequest, peer: Peer) -> SaveResult:
        await self._require_entry("edit", peer, entry_id)
        async with self._turns.turn(peer.uid, peer.pid):
            return await self._service.edit(entry_id, request, peer)

    async def outcome(self, entry_id: str, request: OutcomeRequest, peer: Peer) -> SaveResult:
        await self._require_entry("outcome", peer, entry_id)
        async with self._turns.turn(peer.uid, peer.pid):
            return await self._service.outcome(entry_id, request, peer)

    async def forget(
        self, entry_id: str, peer: Peer, *, if_version: int | None = None, with_copies: bool = False
    ) -> ForgetReply:
        await self._require_entry("forget", peer, entry_id)
        async with self._turns.turn(peer.uid, peer.pid):
            return await self._service.forget(entry_id, peer, if_version=if_version, with_copies=with_copies)

    async def injection(self, injection_id: str, peer: Peer) -> InjectionView:
        rights = await self._access.rights_of(peer)
        if rights.is_admin:
            return await self._service.injection(injection_id, peer)
        try:
            receipt = await self._service.injection(injection_id, peer)
        except NotFound:
            raise _no_receipt(injection_id) from None
        if not may_see(receipt.namespace, receipt.principal, rights, peer):
            raise _no_receipt(injection_id)
        return receipt

    async def injections(self, limit: int, peer: Peer, *, visible: Visible = everything) -> InjectionList:
        rights = await self._access.rights_of(peer)
        if rights.is_admin:
            return await self._service.injections(limit, peer, visible=visible)

        def granted(namespace: str, principal: int | None) -> bool:
            return visible(namespace, principal) and may_see(namespace, principal, rights, peer)

        async with self._turns.turn(peer.uid, peer.pid):
            return await self._service.injections(limit, peer, visible=granted)

    # What is asked of the daemon itself.

    async def status(self, peer: Peer) -> StatusReply:
        await self._access.require_admin(peer)
        return await self._service.status(peer)

    async def queue(self, peer: Peer) -> QueueReply:
        await self._access.require_admin(peer)
        return await self._service.queue(peer)

    async def retry(self, peer: Peer) -> RetryReply:
        await self._access.require_admin(peer)
        return await self._service.retry(peer)

    async def drain(self, request: DrainRequest, peer: Peer) -> QueueReply:
        await self._access.require_admin(peer)
        return await self._service.drain(request, peer)

    async def reembed_status(self, peer: Peer) -> ReembedReply:
        await self._access.require_admin(peer)
        return await self._service.reembed_status(peer)

    async def reembed(self, action: ReembedAction, peer: Peer) -> ReembedReply:
        await self._access.require_admin(peer)
        return await self._service.reembed(action, peer)

    async def revoke(self, request: RevokeRequest, peer: Peer) -> RevokeReply:
        await self._access.require_admin(peer)
        return await self._service.revoke(request, peer)

    async def undo_revocation(self, revocation_id: int, peer: Peer) -> ReleaseReply:
        await self._access.require_admin(peer)
        return await self._service.undo_revocation(revocation_id, peer)

    async def release(self, entry_id: str, peer: Peer) -> ReleaseReply:
        await self._access.require_admin(peer)
        return await self._service.release(entry_id, peer)

    async def backup(self, request: BackupRequest, peer: Peer) -> BackupReply:
        await self._access.require_admin(peer)
        return await self._service.backup(request, peer)

    async def audit(self, wanted: AuditQuery, peer: Peer) -> AuditPage:
        await self._access.require_admin(peer)
        return await self._service.audit(wanted, peer)

    async def verify_audit(self, peer: Peer, *, noted: str | None = None) -> AuditVerdict:
        await self._access.require_admin(peer)
        return await self._service.verify_audit(peer, noted=noted)

    async def doctor(self, wanted: Examination, peer: Peer) -> DoctorReply:
        await self._access.require_admin(peer)
        return await self._service.doctor(wanted, peer)

    async def doctor_fix(self, wanted: Examination, peer: Peer) -> DoctorReply:
        await self._access.require_admin(peer)
        return await self._service.doctor_fix(wanted, peer)

    # What has no peer: `gate.Gate` lets only those in who may read it.

    async def metrics(self) -> bytes:
        return await self._service.metrics()

    def degraded(self) -> Mapping[str, str]:
        return self._service.degraded()

    def not_ready(self) -> str | None:
        return self._service.not_ready()

    # Decisions.

    async def _require(self, operation: str, peer: Peer, namespace: str) -> Rights:
        return await self._access.require(peer, namespace, OPERATIONS[operation].right)

    async def _require_all(self, operation: str, peer: Peer, namespaces: Iterable[str]) -> None:
        """Of many entries, one that is refused refuses the request: nothing of it is done."""
        for namespace in dict.fromkeys(namespaces):
            await self._require(operation, peer, namespace)

    async def _require_entry(self, operation: str, peer: Peer, entry_id: str) -> None:
        rights = await self._access.rights_of(peer)
        if rights.is_admin:
            return
        namespace = await self._readable(rights, entry_id)
        if namespace is None:
            raise NotFound(f"no entry has the id {entry_id!r}", hint="`agentctx list` shows the ids.")
        needed = OPERATIONS[operation].right
        if rights.on(namespace) < needed:
            raise denied(needed, namespace)

    async def _readable(self, rights: Rights, entry_id: str) -> str | None:
        """The namespace of an entry, if the peer may read there. Both answers take one look-up."""
        namespace = await self._namespace_of(entry_id)
        return namespace if namespace is not None and rights.on(namespace) >= Right.READ else None

    async def _exportable(self, selection: Selection, peer: Peer) -> Selection:
        """The selection of what may be read: that which was named, or else everything that is granted."""
        if selection.namespaces:
            await self._require_all("export", peer, selection.namespaces)
            return selection
        granted = (await self._access.rights_of(peer)).named(OPERATIONS["export"].right)
        if granted is None:
            raise AccessDenied(
                "not every namespace may be read",
                hint="Name the namespaces to export, like --namespace team.",
            )
        return replace(selection, namespaces=granted)


def may_see(namespace: str, principal: int | None, rights: Rights, peer: Peer) -> bool:
    """Whether a receipt may be shown: one's own while one may read there, or any to the namespace's admin."""
    right = rights.on(namespace)
    return right >= Right.ADMIN or (right >= Right.READ and principal == peer.uid)


def _unknown(entry_id: str) -> ExplainReply:
    return ExplainReply(
        entry=entry_id,
        verdict="not_found",
        message="no entry has this id: it was never saved here, or it was forgotten",
        candidates=[],
    )


def _no_receipt(injection_id: str) -> NotFound:
    return NotFound(
        f"there is no receipt {injection_id!r}",
        hint="`agentctx why` lists the last ones; old ones are removed (injection.receipts_days).",
    )
