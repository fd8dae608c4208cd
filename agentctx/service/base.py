"""The contract of the daemon's work: what can be asked of it, and by whom. Free of HTTP.

Docstrings of operations appear in `/openapi.json` and in docs/http-reference.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Protocol, TypeAlias

from pydantic import Field

from agentctx.errors import AgentctxError
from agentctx.storage.audit import AuditQuery
from agentctx.storage.injections import Visible, everything
from agentctx.storage.transfer import ExportSelection
from agentctx.wire import (
    AuditPage,
    AuditVerdict,
    AuditVerifyRequest,
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

MAX_PAGE: Final = 1_000
PAGE: Final = 50

Limit: TypeAlias = Annotated[int, Field(ge=1, le=MAX_PAGE)]
"""How many rows a page has at most."""
Version: TypeAlias = Annotated[int, Field(ge=1, le=2**63 - 1)]
RevocationId: TypeAlias = Annotated[int, Field(ge=1, le=2**63 - 1)]


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
    agent: str | None = None
    category: str | None = None
    tags: Sequence[str] = ()
    since: str | None = None
    until: str | None = None
    key: str | None = None
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
    """Every operation, as `service/operations.py` lists them, and what supervisors ask without a peer.

    Errors are `AgentctxError`s.
    """

    async def save(
        self, requests: Sequence[SaveRequest], peer: Peer, *, idempotency_key: str | None = None
    ) -> list[SaveResult | AgentctxError]:
        """Save each entry independently: a bad one fails alone. Results are in order."""
        ...

    async def list_entries(self, wanted: Listing, peer: Peer) -> EntryPage:
        """One page of live entries, newest first."""
        ...

    async def get(self, entry_id: str, peer: Peer, *, version: Version | None = None) -> EntryView:
        """Read an entry: the live version, or an older one."""
        ...

    async def versions(
        self, entry_id: str, peer: Peer, *, limit: Limit = PAGE, cursor: str | None = None
    ) -> VersionPage:
        """List the versions of an entry, newest first, in pages."""
        ...

    async def edit(self, entry_id: str, request: EditRequest, peer: Peer) -> SaveResult:
        """Change fields of an entry; fields that are absent stay as they are."""
        ...

    async def outcome(self, entry_id: str, request: OutcomeRequest, peer: Peer) -> SaveResult:
        """Record whether applying a learning worked."""
        ...

    async def forget(
        self, entry_id: str, peer: Peer, *, if_version: Version | None = None, with_copies: bool = False
    ) -> ForgetReply:
        """Erase an entry with all its versions; with copies, captured replies that repeat it as well."""
        ...

    async def search(self, request: SearchRequest, peer: Peer) -> SearchReply:
        """Find the closest passages."""
        ...

    async def context(self, request: ContextRequest, peer: Peer) -> ContextReply:
        """Make the block that an LLM call would get."""
        ...

    async def injections(self, limit: int, peer: Peer, *, visible: Visible = everything) -> InjectionList:
        """The receipts of the last injections that are visible, newest first."""
        ...

    async def injection(self, injection_id: str, peer: Peer) -> InjectionView:
        """Show one receipt: what was found for an LLM call, and why it was injected or left out."""
        ...

    async def explain(self, request: ExplainRequest, peer: Peer) -> ExplainReply:
        """Say why an entry is in the context for a question, or not, as things are now."""
        ...

    async def export(
        self, selection: ExportSelection, peer: Peer, *, cursor: str | None, limit: int
    ) -> ExportReply:
        """One page of live entries with what the selection asks for, oldest change first."""
        ...

    async def import_entries(self, request: ImportRequest, peer: Peer) -> list[SaveResult | AgentctxError]:
        """Save each exported version independently; results are in order."""
        ...

    async def status(self, peer: Peer) -> StatusReply:
        """Report what the daemon holds, does and costs."""
        ...

    async def queue(self, peer: Peer) -> QueueReply:
        """Report which embeddings are pending and which are buried."""
        ...

    async def retry(self, peer: Peer) -> RetryReply:
        """Put the buried jobs back into the queue."""
        ...

    async def drain(self, request: DrainRequest, peer: Peer) -> QueueReply:
        """Wait, for at most `timeout_s` seconds, until everything that is due is embedded."""
        ...

    async def reembed_status(self, peer: Peer) -> ReembedReply:
        """Report the progress of the next model, and how the two compare."""
        ...

    async def reembed(self, action: ReembedAction, peer: Peer) -> ReembedReply:
        """Accept the cost of the next model, switch to it, go back to the former one, or drop that.

        Raises:
            NotFound: there is no other model.
            Conflict: it is not in the state for that.
        """
        ...

    async def doctor(self, wanted: Examination, peer: Peer) -> DoctorReply:
        """Examine the daemon's database, queue and embedding provider, and change nothing."""
        ...

    async def doctor_fix(self, wanted: Examination, peer: Peer) -> DoctorReply:
        """Examine, repair what can be repaired, and report what was done and what remains."""
        ...

    async def backup(self, request: BackupRequest, peer: Peer) -> BackupReply:
        """Write a backup and verify it, while the daemon serves requests. It may take minutes.

        Only the daemon's own user may name the file; without one it goes into the folder of backups.
        """
        ...

    async def audit(self, wanted: AuditQuery, peer: Peer) -> AuditPage:
        """Rows of the audit trail, newest first."""
        ...

    async def verify_audit(self, request: AuditVerifyRequest, peer: Peer) -> AuditVerdict:
        """Verify the chain of the audit trail: every row is as it was written, and none is missing."""
        ...

    async def revoke(self, request: RevokeRequest, peer: Peer) -> RevokeReply:
        """Take a source, and everything derived from its entries, out of every answer from this reply on."""
        ...

    async def undo_revocation(self, revocation_id: RevocationId, peer: Peer) -> ReleaseReply:
        """Undo a revocation. Entries that nothing else keeps in quarantine come into answers again."""
        ...

    async def release(self, entry_id: str, peer: Peer) -> ReleaseReply:
        """Let an entry out of quarantine, whatever put it there."""
        ...

    async def metrics(self) -> bytes:
        """The text format of Prometheus."""
        ...

    def degraded(self) -> Mapping[str, str]:
        """What works less well than it should, and why; requests are served all the same."""
        ...

    def not_ready(self) -> str | None:
        """Why requests cannot be served yet; None when they can."""
        ...
