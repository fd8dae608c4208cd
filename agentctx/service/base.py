"""The daemon's interface: its operations and their callers. Independent of HTTP.

Docstrings of operations appear in `/openapi.json` and in docs/http-reference.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Protocol, TypeAlias

from pydantic import Field

from agentctx import wire
from agentctx.config.schema import Settings
from agentctx.errors import AgentctxError
from agentctx.storage.audit import AuditQuery
from agentctx.storage.entries import ExportSelection
from agentctx.storage.injections import Visible, everything

MAX_PAGE: Final = 1_000
PAGE: Final = 50

Limit: TypeAlias = Annotated[int, Field(ge=1, le=MAX_PAGE)]
"""The maximum number of rows on a page."""
Version: TypeAlias = Annotated[int, Field(ge=1, le=2**63 - 1)]
RevocationId: TypeAlias = Annotated[int, Field(ge=1, le=2**63 - 1)]


Readable: TypeAlias = Callable[[str], bool]
"""Returns whether the peer may read a namespace."""


def every_namespace(namespace: str) -> bool:  # noqa: ARG001 - fits as `Readable`
    """Admit all namespaces."""
    return True


@dataclass(slots=True)
class CurrentSettings:
    """The settings in effect; a reload replaces the value."""

    value: Settings


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end of a connection, as the kernel reports it (`SO_PEERCRED`)."""

    pid: int
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The filters of a page of entries. `cursor` is the `next` of the previous page."""

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
    withdrawn: bool = False
    marked: bool = False
    with_content: bool = True
    limit: int
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The checks for `doctor` to run: ids of checks or names of groups; empty for all.

    With `offline`, no embedding provider outside the daemon is called.
    """

    only: tuple[str, ...] = ()
    offline: bool = False


class Service(Protocol):
    """All operations listed in `service/operations.py`, and the calls for supervisors, which have no peer.

    Errors are `AgentctxError`s.
    """

    async def save(
        self,
        requests: Sequence[wire.SaveRequest],
        peer: Peer,
        *,
        idempotency_key: str | None = None,
        readable: Readable = every_namespace,
    ) -> list[wire.SaveResult | AgentctxError]:
        """Save each entry independently: an invalid one fails alone. Results are in order.

        Entries can be derived only from what is in a `readable` namespace.
        """

    async def list_entries(self, wanted: Listing, peer: Peer) -> wire.EntryPage:
        """List live entries, newest first, in pages."""

    async def namespaces(self, peer: Peer, *, readable: Readable = every_namespace) -> wire.NamespaceList:
        """Count the entries of each readable namespace."""

    async def get(self, entry_id: str, peer: Peer, *, version: Version | None = None) -> wire.EntryView:
        """Read an entry: the live version, or an older one."""

    async def versions(
        self, entry_id: str, peer: Peer, *, limit: Limit = PAGE, cursor: str | None = None
    ) -> wire.VersionPage:
        """List the versions of an entry, newest first, in pages."""

    async def edit(self, entry_id: str, request: wire.EditRequest, peer: Peer) -> wire.SaveResult:
        """Change fields of an entry; absent fields are left unchanged."""

    async def outcome(self, entry_id: str, request: wire.OutcomeRequest, peer: Peer) -> wire.SaveResult:
        """Record whether applying a learning worked."""

    async def forget(
        self, entry_id: str, peer: Peer, *, if_version: Version | None = None, with_copies: bool = False
    ) -> wire.ForgetReply:
        """Erase an entry with all its versions; with `with_copies`, also captured replies that repeat it."""

    async def forget_all(self, namespace: str, peer: Peer, *, dry_run: bool = False) -> wire.ForgetAllReply:
        """Erase all entries of a namespace, in whatever state; with `dry_run`, only count them.

        It takes a few milliseconds for each, while other requests are served. If it is interrupted, the rest
        stays: repeat it.
        """

    async def search(self, request: wire.SearchRequest, peer: Peer) -> wire.SearchReply:
        """Find the most relevant passages."""

    async def context(self, request: wire.ContextRequest, peer: Peer) -> wire.ContextReply:
        """Build the block for an LLM call."""

    async def injections(
        self, limit: int, peer: Peer, *, visible: Visible = everything
    ) -> wire.InjectionList:
        """List the receipts of the last visible injections, newest first."""

    async def injection(self, injection_id: str, peer: Peer) -> wire.InjectionView:
        """Show one receipt: the passages found for an LLM call, and why each was injected or omitted."""

    async def explain(self, request: wire.ExplainRequest, peer: Peer) -> wire.ExplainReply:
        """Explain why an entry would or would not be in the context for a question now."""

    async def export(
        self, selection: ExportSelection, peer: Peer, *, cursor: str | None, limit: int
    ) -> wire.ExportReply:
        """Export a page of selected live entries, oldest change first."""

    async def import_entries(
        self, request: wire.ImportRequest, peer: Peer
    ) -> list[wire.SaveResult | AgentctxError]:
        """Import each exported version independently; results are in order."""

    async def status(self, peer: Peer) -> wire.StatusReply:
        """Report the daemon's stored data, activity and costs."""

    async def queue(self, peer: Peer) -> wire.QueueReply:
        """Report pending and buried embeddings."""

    async def retry(self, peer: Peer) -> wire.RetryReply:
        """Put the buried jobs back into the queue."""

    async def drain(self, request: wire.DrainRequest, peer: Peer) -> wire.QueueReply:
        """Wait, for at most `timeout_s` seconds, until all pending embeddings are done."""

    async def reembed_status(self, peer: Peer) -> wire.ReembedReply:
        """Report the progress of the next model and how it compares with the current one."""

    async def reembed(self, action: wire.ReembedAction, peer: Peer) -> wire.ReembedReply:
        """Accept the cost of the next model, switch to it, roll back to the previous model, or drop that.

        Raises:
            NotFound: only one model is in use.
            Conflict: the other model is not in the right state for the action.
        """

    async def doctor(self, wanted: Examination, peer: Peer) -> wire.DoctorReply:
        """Examine the daemon's database, queue and embedding provider without changing anything."""

    async def doctor_fix(self, wanted: Examination, peer: Peer) -> wire.DoctorReply:
        """Examine and repair what can be repaired; report the repairs and the remaining problems."""

    async def rewrite(self, peer: Peer) -> wire.RewriteReply:
        """Remove deleted data from the database's files now, from unused space too. It may take minutes.

        With PostgreSQL it rewrites whole tables; saves and searches wait meanwhile.
        """

    async def backup(self, request: wire.BackupRequest, peer: Peer) -> wire.BackupReply:
        """Write a backup and verify it, while the daemon serves requests. It may take minutes.

        Only the daemon's own user may choose the file; by default it goes into the backup folder.
        """

    async def audit(self, wanted: AuditQuery, peer: Peer) -> wire.AuditPage:
        """List the rows of the audit trail, newest first."""

    async def verify_audit(self, request: wire.AuditVerifyRequest, peer: Peer) -> wire.AuditVerdict:
        """Verify from the hash chain of the audit trail that all rows are present and unchanged."""

    async def mark_files(self, request: wire.MarkFilesRequest, peer: Peer) -> wire.MarkFilesReply:
        """Mark entries whose file could not be seen, is gone or says something else, or unmark them.

        Stale entries stay in the answers. Withdrawn ones leave them, keep everything said about them, and
        return when they are unmarked.
        """

    async def revoke(self, request: wire.RevokeRequest, peer: Peer) -> wire.RevokeReply:
        """Exclude a source, and everything derived from its entries, from all answers after this reply."""

    async def undo_revocation(self, revocation_id: RevocationId, peer: Peer) -> wire.ReleaseReply:
        """Undo a revocation. Entries that nothing else keeps in quarantine return to answers."""

    async def release(self, entry_id: str, peer: Peer) -> wire.ReleaseReply:
        """Release an entry from quarantine, whatever the reason for it."""

    async def metrics(self) -> bytes:
        """Return the metrics in the Prometheus text format."""

    def degraded(self) -> Mapping[str, str]:
        """Return the degraded functions, each with the reason; requests are still served."""

    def not_ready(self) -> str | None:
        """Return why requests cannot be served yet; None if they can."""
