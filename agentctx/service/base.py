"""What the HTTP layer asks for. Each method answers one route; errors are `AgentctxError`s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentctx.errors import AgentctxError
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


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of a connection, by the kernel (`SO_PEERCRED`)."""

    pid: int
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Which entries a page shows. `cursor` is the `next` of the page before."""

    namespace: str
    collections: Sequence[str] | None = None
    session: str | None = None
    key_prefix: str | None = None
    with_content: bool = True
    limit: int
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What `doctor` looks at: ids of checks or names of groups; all when there are none.

    `offline`: no embedding provider outside the daemon is asked.
    """

    only: tuple[str, ...] = ()
    offline: bool = False


class Service(Protocol):
    """The daemon's work, free of HTTP."""

    async def save(
        self, requests: Sequence[SaveRequest], peer: Peer, *, idempotency_key: str | None = None
    ) -> list[SaveResult | AgentctxError]:
        """Save each by itself: a bad one fails alone. Results in order."""
        ...

    async def edit(self, entry_id: str, request: EditRequest, peer: Peer) -> SaveResult: ...

    async def get(self, entry_id: str, peer: Peer, *, version: int | None = None) -> EntryView: ...

    async def list_entries(self, wanted: Listing, peer: Peer) -> EntryPage: ...

    async def versions(
        self, entry_id: str, peer: Peer, *, limit: int, cursor: str | None = None
    ) -> VersionPage: ...

    async def forget(
        self, entry_id: str, peer: Peer, *, if_version: int | None = None, with_copies: bool = False
    ) -> ForgetReply: ...

    async def outcome(self, entry_id: str, request: OutcomeRequest, peer: Peer) -> SaveResult: ...

    async def search(self, request: SearchRequest, peer: Peer) -> SearchReply: ...

    async def context(self, request: ContextRequest, peer: Peer) -> ContextReply: ...

    async def injection(self, injection_id: str, peer: Peer) -> InjectionView:
        """One receipt."""
        ...

    async def injections(self, limit: int, peer: Peer, *, visible: Visible = everything) -> InjectionList:
        """The last receipts that are visible."""
        ...

    async def explain(self, request: ExplainRequest, peer: Peer) -> ExplainReply:
        """Why an entry is in the context for a question, or not. Makes no receipt."""
        ...

    async def status(self, peer: Peer) -> StatusReply: ...

    async def queue(self, peer: Peer) -> QueueReply: ...

    async def retry(self, peer: Peer) -> RetryReply: ...

    async def drain(self, request: DrainRequest, peer: Peer) -> QueueReply:
        """Wait until nothing is owed that is due, but not longer than asked; then tell what is owed."""
        ...

    async def export(
        self, selection: Selection, peer: Peer, *, cursor: str | None, limit: int
    ) -> ExportReply: ...

    async def import_entries(self, request: ImportRequest, peer: Peer) -> list[SaveResult | AgentctxError]:
        """Save each version that was exported, by itself; results in order."""
        ...

    async def reembed_status(self, peer: Peer) -> ReembedReply:
        """How far the model beside the one that answers is."""
        ...

    async def reembed(self, action: ReembedAction, peer: Peer) -> ReembedReply:
        """Do it, and tell what there is then.

        Raises:
            NotFound: there is no other model.
            Conflict: it is not in the state for that.
        """
        ...

    async def revoke(self, request: RevokeRequest, peer: Peer) -> RevokeReply:
        """Hold a source back from every answer, with all that was made of it.

        Raises:
            InvalidInput: it names nothing.
        """
        ...

    async def undo_revocation(self, revocation_id: int, peer: Peer) -> ReleaseReply:
        """Release what it holds. Raises `NotFound`."""
        ...

    async def release(self, entry_id: str, peer: Peer) -> ReleaseReply:
        """Let an entry out of quarantine. Raises `NotFound`."""
        ...

    async def backup(self, request: BackupRequest, peer: Peer) -> BackupReply:
        """Write a verified backup.

        Raises:
            AccessDenied: the peer may not name the file.
            InvalidInput, StorageFull, StorageFailed: as `Storage.backup`.
        """
        ...

    async def audit(self, wanted: AuditQuery, peer: Peer) -> AuditPage:
        """Rows of the audit trail, newest first.

        Raises:
            AccessDenied: the peer is not an operator.
        """
        ...

    async def verify_audit(self, peer: Peer, *, noted: str | None = None) -> AuditVerdict:
        """Follow the chain of the audit trail; `noted` is a head of it that was told earlier.

        Raises:
            AccessDenied: the peer is not an operator.
            InvalidInput: `noted` is no head.
        """
        ...

    async def metrics(self) -> bytes:
        """The text format of Prometheus."""
        ...

    def degraded(self) -> Mapping[str, str]:
        """What works less well than it should, and why; requests are served all the same."""
        ...

    async def doctor(self, wanted: Examination, peer: Peer) -> DoctorReply:
        """Examine database, queue and provider, and change nothing."""
        ...

    async def doctor_fix(self, wanted: Examination, peer: Peer) -> DoctorReply:
        """Examine, and repair what can be repaired."""
        ...

    def not_ready(self) -> str | None:
        """Why requests cannot be served yet; None when they can."""
        ...
