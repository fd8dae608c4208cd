"""A service that records its calls and returns scripted replies."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentctx.errors import AgentctxError
from agentctx.service.access.grants import ALL_RIGHTS, Rights
from agentctx.service.base import Peer, Readable, every_namespace
from agentctx.storage.injections import Visible, everything
from agentctx.wire import (
    AccessReply,
    ActivityStatus,
    AuditPage,
    AuditVerdict,
    BackupReply,
    BackupRequest,
    CaptureModeRequest,
    CaptureState,
    CheckResult,
    ContextReply,
    ContextRequest,
    DatabaseStatus,
    DoctorReply,
    DoctorSummary,
    DrainRequest,
    EditRequest,
    EntryPage,
    EntryView,
    ExplainReply,
    ExplainRequest,
    ExportReply,
    ForgetAllReply,
    ForgetReply,
    ImportRequest,
    InjectionList,
    InjectionView,
    KeepRequest,
    MarkFilesReply,
    MarkFilesRequest,
    NamespaceList,
    OutcomeRequest,
    PageLink,
    ProviderStatus,
    QueueReply,
    ReembedAction,
    ReembedReply,
    ReleaseReply,
    RetryReply,
    ReviewReply,
    RevokeReply,
    RevokeRequest,
    RewriteReply,
    SaveRequest,
    SaveResult,
    SearchReply,
    SearchRequest,
    StatusReply,
    VersionPage,
)

BACKUP = BackupReply(
    file="b",
    made="2026-01-01T00:00:00.000Z",
    bytes=1,
    schema=1,
    entries=0,
    versions=0,
    vectors=0,
    removed=[],
)
SAVED = SaveResult(id="e1", version=1, changed=True)
QUEUE = QueueReply(pending=0, buried=0, oldest_seconds=0.0, buried_jobs=[])
IDLE = ActivityStatus(
    saved=0, asked=0, degraded=0, embedded=0, provider_failures=0, save=None, ask=None, embed=None
)
DOCTOR = DoctorReply(
    version="0",
    ok=True,
    checks=[CheckResult(id="database.opens", group="database", status="pass", message="it opens")],
    summary=DoctorSummary(passed=1, warned=0, failed=0, skipped=0),
)
INJECTION = InjectionView(
    id="01k0",
    created="2026-01-01T00:00:00.000Z",
    namespaces=["default"],
    session=None,
    conversation=None,
    agent=None,
    principal=0,
    position="tail",
    question_hash="ab",
    question=None,
    injected=0,
    fates={},
    gate=None,
    budget_tokens=9,
    tokens=0,
    milliseconds=1.5,
    block_hash=None,
    degraded=None,
    rerank=None,
    candidates=[],
)
ENTRY = EntryView(
    id="e1",
    version=1,
    live=True,
    namespace="default",
    collection="knowledge",
    key=None,
    session=None,
    agent=None,
    content="a",
    attributes={},
    origin="agent",
    trust="agent",
    principal=0,
    created="2026-01-01T00:00:00.000Z",
    updated="2026-01-01T00:00:00.000Z",
    expires=None,
    embedding="off",
)


@dataclass
class RecordingService:
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    peers: list[Peer] = field(default_factory=list)
    outcomes: list[SaveResult | AgentctxError] = field(default_factory=list)
    error: Exception | None = None
    reason: str | None = None
    gate: asyncio.Event | None = None
    """A search sets `searching`, then waits for this."""
    searching: asyncio.Event = field(default_factory=asyncio.Event)
    block: str = ""
    degradations: dict[str, str] = field(default_factory=dict)

    def _record(self, name: str, peer: Peer, *args: object, **kwargs: object) -> None:
        self.calls.append((name, args, kwargs))
        self.peers.append(peer)
        if self.error is not None:
            raise self.error

    async def save(
        self,
        requests: Sequence[SaveRequest],
        peer: Peer,
        *,
        idempotency_key: str | None = None,
        readable: Readable = every_namespace,
    ) -> list[SaveResult | AgentctxError]:
        self._record("save", peer, list(requests), idempotency_key=idempotency_key)
        return self.outcomes or [SAVED] * len(requests)

    async def edit(self, entry_id: str, request: EditRequest, peer: Peer) -> SaveResult:
        self._record("edit", peer, entry_id, request)
        return SAVED

    async def get(self, entry_id: str, peer: Peer, *, version: int | None = None) -> EntryView:
        self._record("get", peer, entry_id, version=version)
        return ENTRY

    async def list_entries(self, peer: Peer, **wanted: Any) -> EntryPage:
        self._record("list", peer, **wanted)
        return EntryPage(entries=[ENTRY], next=None)

    async def versions(
        self, entry_id: str, peer: Peer, *, limit: int = 50, cursor: str | None = None
    ) -> VersionPage:
        self._record("versions", peer, entry_id, limit=limit, cursor=cursor)
        return VersionPage(versions=[ENTRY], next=None)

    async def forget(
        self, entry_id: str, peer: Peer, *, if_version: int | None = None, with_copies: bool = False
    ) -> ForgetReply:
        self._record("forget", peer, entry_id, if_version=if_version, with_copies=with_copies)
        return ForgetReply(id=entry_id, versions=1)

    async def revoke(self, request: RevokeRequest, peer: Peer) -> RevokeReply:
        self._record("revoke", peer, request)
        return RevokeReply(revocation=1, entries=2, derived=1, held_before=0)

    async def undo_revocation(self, revocation_id: int, peer: Peer) -> ReleaseReply:
        self._record("undo_revocation", peer, revocation_id)
        return ReleaseReply(released=3)

    async def review(self, peer: Peer, *, readable: Readable = every_namespace) -> ReviewReply:
        self._record("review", peer)
        states = [
            CaptureState(namespace=name, agent="codex", mode="review", waiting=2, oldest=None)
            for name in ("default", "other")
            if readable(name)
        ]
        return ReviewReply(captures=states)

    async def set_capture_mode(self, request: CaptureModeRequest, peer: Peer) -> ReviewReply:
        self._record("set_capture_mode", peer, request)
        return ReviewReply(captures=[])

    async def keep(self, entry_id: str, request: KeepRequest, peer: Peer) -> ReleaseReply:
        self._record("keep", peer, entry_id, request)
        return ReleaseReply(released=1)

    async def release(self, entry_id: str, peer: Peer) -> ReleaseReply:
        self._record("release", peer, entry_id)
        return ReleaseReply(released=1)

    async def outcome(self, entry_id: str, request: OutcomeRequest, peer: Peer) -> SaveResult:
        self._record("outcome", peer, entry_id, request)
        return SAVED

    async def search(self, request: SearchRequest, peer: Peer) -> SearchReply:
        self._record("search", peer, request)
        self.searching.set()
        if self.gate is not None:
            await self.gate.wait()
        return SearchReply(results=[], degraded=None)

    async def context(self, request: ContextRequest, peer: Peer) -> ContextReply:
        self._record("context", peer, request)
        return ContextReply(block=self.block, tokens=0, results=[], degraded=None)

    async def injection(self, injection_id: str, peer: Peer) -> InjectionView:
        self._record("injection", peer, injection_id)
        return INJECTION

    async def forget_all(self, namespace: str, peer: Peer, *, dry_run: bool = False) -> ForgetAllReply:
        self._record("forget_all", peer, namespace, dry_run)
        return ForgetAllReply(namespace=namespace, entries=1, dry_run=dry_run)

    async def open_page(self, peer: Peer) -> PageLink:
        self._record("open_page", peer)
        return PageLink(url="http://127.0.0.1:1/open/secret", port=1)

    async def namespaces(self, peer: Peer, *, readable: Readable = every_namespace) -> NamespaceList:
        counts = {"default": 2, "hidden": 1}
        self._record("namespaces", peer, [name for name in counts if readable(name)])
        return NamespaceList(namespaces=[], more=0)

    async def injections(
        self,
        peer: Peer,
        *,
        limit: int = 20,
        entry: str = "",
        visible: Visible = everything,
    ) -> InjectionList:
        self._record("injections", peer, limit)
        return InjectionList(injections=[])

    async def explain(self, request: ExplainRequest, peer: Peer) -> ExplainReply:
        self._record("explain", peer, request)
        return ExplainReply(entry=request.entry, verdict="no_match", message="no", candidates=[])

    async def status(self, peer: Peer) -> StatusReply:
        self._record("status", peer)
        return StatusReply(
            version="0",
            pid=1,
            uptime_seconds=0.0,
            socket="s",
            entries={},
            chunks=0,
            vectors=0,
            provider=ProviderStatus(id="none", model="", dimension=0, state="off", reason=None),
            queue=QUEUE,
            database=DatabaseStatus(path="d", engine="SQLite 3", bytes=0, wal_bytes=0, commits=0),
            embed_cpu_seconds=0.0,
            cpu_seconds=0.0,
            rss_bytes=0,
            vector_memory_bytes=0,
            word_memory_bytes=0,
            activity=IDLE,
        )

    async def access(self, peer: Peer, *, rights: Rights = ALL_RIGHTS) -> AccessReply:
        self._record("access", peer)
        given = {pattern: right.name.lower() for pattern, right in rights.by_pattern.items()}
        return AccessReply(rights=given, grants=[], quotas={}, used={})

    async def queue(self, peer: Peer) -> QueueReply:
        self._record("queue", peer)
        return QUEUE

    async def retry(self, peer: Peer) -> RetryReply:
        self._record("retry", peer)
        return RetryReply(retried=2)

    async def drain(self, request: DrainRequest, peer: Peer) -> QueueReply:
        self._record("drain", peer, request)
        return QUEUE

    async def export(self, peer: Peer, **wanted: Any) -> ExportReply:
        self._record("export", peer, **wanted)
        return ExportReply(entries=[], next=None)

    async def import_entries(self, request: ImportRequest, peer: Peer) -> list[SaveResult | AgentctxError]:
        self._record("import_entries", peer, request)
        return [SAVED for _ in request.entries]

    async def mark_files(self, request: MarkFilesRequest, peer: Peer) -> MarkFilesReply:
        self._record("mark_files", peer, request)
        return MarkFilesReply(entries=0)

    async def rewrite(self, peer: Peer) -> RewriteReply:
        self._record("rewrite", peer)
        return RewriteReply(remains=[])

    async def backup(self, request: BackupRequest, peer: Peer) -> BackupReply:
        self._record("backup", peer, request)
        return BACKUP

    async def audit(self, peer: Peer, **wanted: Any) -> AuditPage:
        self._record("audit", peer, **wanted)
        return AuditPage(events=[])

    async def verify_audit(self, peer: Peer) -> AuditVerdict:
        self._record("verify_audit", peer)
        return AuditVerdict(sound=True, rows=0, faults=0, listed=[])

    async def reembed_status(self, peer: Peer) -> ReembedReply:
        self._record("reembed_status", peer)
        return ReembedReply(stage="off", answering=None, beside=None)

    async def reembed(self, action: ReembedAction, peer: Peer) -> ReembedReply:
        self._record("reembed", peer, action)
        return ReembedReply(stage="kept", answering=None, beside=None)

    async def metrics(self) -> bytes:
        return b"agentctx_queue_pending 0.0\n"

    def degraded(self) -> dict[str, str]:
        return self.degradations

    async def doctor(self, peer: Peer, **wanted: Any) -> DoctorReply:
        self._record("doctor", peer, **wanted)
        return DOCTOR

    async def doctor_fix(self, peer: Peer, **wanted: Any) -> DoctorReply:
        self._record("doctor_fix", peer, **wanted)
        return DOCTOR

    def not_ready(self) -> str | None:
        return self.reason
