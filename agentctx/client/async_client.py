"""The client for programs on an event loop. Each method is one call of `calls.py`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from agentctx import wire
from agentctx.client import calls
from agentctx.client.async_transport import AsyncUnixTransport
from agentctx.client.batches import BATCH_BYTES, BATCH_ENTRIES, Batch, BatchDelivery, SaveBatcher
from agentctx.client.calls import ApiCall, SaveOutcomes
from agentctx.client.retry import START_TIMEOUT_S
from agentctx.client.session import UNANSWERED, Session, new_idempotency_key
from agentctx.client.transport import TIMEOUT_S, AsyncTransport, HttpReply
from agentctx.errors import AgentctxError, InvalidInput
from agentctx.wire.names import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from agentctx.client.options import (
        ContextOptions,
        EditFields,
        ExportOptions,
        KnowledgeOptions,
        LearningOptions,
        ListOptions,
        NoteOptions,
        ReflectionOptions,
        RevokeOptions,
        SaveFields,
        SearchOptions,
    )

T = TypeVar("T")


class AsyncClient(Session):
    """A connection to the daemon. `async with AsyncClient() as client: ...`

    `socket` is found as `config.paths.find_socket` says when it is not named. `timeout_s` bounds each
    exchange with the daemon, without the time it was asked to wait; `within` gives single calls another one.
    `start_timeout_s` is how long a call waits for a daemon that does not listen yet, is starting or
    stopping; 0 fails at once. `namespace` is used where a call names none. `transport` replaces the
    connections over the socket. One client may serve many tasks of one loop.

    Every method raises DaemonUnreachable when no daemon listens, DeadlineExceeded when no answer came in
    time, and the error the daemon answered with. Saves and reads are sent again when the connection drops
    before the answer; a save carries an `Idempotency-Key`, so that it happens once.
    """

    def __init__(
        self,
        socket: Path | str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        start_timeout_s: float = START_TIMEOUT_S,
        namespace: str = DEFAULT_NAMESPACE,
        transport: AsyncTransport | None = None,
    ) -> None:
        super().__init__(socket, timeout_s=timeout_s, start_timeout_s=start_timeout_s, namespace=namespace)
        self._transport: AsyncTransport = transport or AsyncUnixTransport(self.socket)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the kept connections; the client cannot be used after it."""
        await self._transport.close()

    async def save(
        self, collection: str, content: str | None = None, **fields: Unpack[SaveFields]
    ) -> wire.SaveResult:
        """Save one entry; when this returns, it is on disk. Saving the same again changes nothing.

        Raises:
            InvalidInput: a field does not belong to the collection, or is malformed.
            VersionConflict: `if_version` is not the live version; 0 means the key must be new.
        """
        fields.setdefault("namespace", self.namespace)
        request = wire.SaveRequest(collection=collection, content=content, **fields)
        return await self._send(calls.save(request, new_idempotency_key()))

    async def save_knowledge(
        self, key: str, content: str, **options: Unpack[KnowledgeOptions]
    ) -> wire.SaveResult:
        """Save what is true until it is replaced: the key names it, saving it again makes a new version."""
        options.setdefault("category", "fact")
        return await self.save("knowledge", content, key=key, **options)

    async def save_observation(
        self, session: str, content: str, **options: Unpack[NoteOptions]
    ) -> wire.SaveResult:
        """Save what was seen or said in a session."""
        return await self.save("observation", content, session=session, **options)

    async def save_reflection(
        self, session: str, content: str, **options: Unpack[ReflectionOptions]
    ) -> wire.SaveResult:
        """Save what was concluded in a session."""
        return await self.save("reflection", content, session=session, **options)

    async def save_learning(self, trigger: str, **options: Unpack[LearningOptions]) -> wire.SaveResult:
        """Save what went wrong when `trigger` happened, why, and what helped; again counts it up."""
        return await self.save("learning", trigger=trigger, **options)

    async def save_many(self, requests: Sequence[wire.SaveRequest]) -> SaveOutcomes:
        """Save many entries in one request; a bad one fails alone and its error is in its place.

        Each request names its own namespace: the client's is not put in. `save_all` takes any number.
        """
        return await self._send(calls.save_many(requests, new_idempotency_key()))

    async def save_all(
        self,
        requests: Iterable[wire.SaveRequest] | AsyncIterable[wire.SaveRequest],
        *,
        batch_entries: int = BATCH_ENTRIES,
        batch_bytes: int = BATCH_BYTES,
    ) -> AsyncIterator[wire.SaveResult | AgentctxError]:
        """Save any number of entries, batch by batch, as the results are taken; one for each, in order.

        Requests are pulled when a batch has room, so memory holds one batch. An entry larger than
        `batch_bytes` goes alone; one that the daemon refuses fails alone. Each request names its own
        namespace: the client's is not put in. When this ends early, what has no result may be saved or not.

        Raises:
            AgentctxError: a batch could not be delivered (no daemon, no answer, disk full).
        """
        batcher = SaveBatcher(batch_entries, batch_bytes)
        async for request in _each(requests):
            if batch := batcher.add(request):
                async for outcome in self._deliver(batch):
                    yield outcome
        if batch := batcher.rest():
            async for outcome in self._deliver(batch):
                yield outcome

    async def get(self, entry_id: str, version: int | None = None) -> wire.EntryView:
        """The live version of an entry, or the one named. Raises NotFound."""
        return await self._send(calls.get(entry_id, version))

    async def list(self, **options: Unpack[ListOptions]) -> wire.EntryPage:
        """A page of live entries, newest first; pass its `next` as `cursor` for the following one."""
        options.setdefault("namespace", self.namespace)
        return await self._send(calls.list_entries(options))

    async def iterate(self, **options: Unpack[ListOptions]) -> AsyncIterator[wire.EntryView]:
        """All live entries, newest first; `limit` is the size of the pages they are fetched in."""
        while True:
            page = await self.list(**options)
            for entry in page.entries:
                yield entry
            if page.next is None:
                return
            options["cursor"] = page.next

    async def edit(self, entry_id: str, **changes: Unpack[EditFields]) -> wire.SaveResult:
        """Change fields of an entry; the others stay. Raises NotFound or VersionConflict."""
        return await self._send(calls.edit(entry_id, wire.EditRequest(**changes)))

    async def history(
        self, entry_id: str, *, limit: int | None = None, cursor: str | None = None
    ) -> wire.VersionPage:
        """A page of an entry's versions, newest first; pass its `next` as `cursor` for the following one.

        Raises:
            NotFound.
        """
        return await self._send(calls.history(entry_id, limit, cursor))

    async def forget(
        self, entry_id: str, if_version: int | None = None, *, with_copies: bool = False
    ) -> wire.ForgetReply:
        """Delete an entry and all its versions permanently. Raises NotFound or VersionConflict.

        `with_copies` removes captured replies that repeat it as well; without it they are listed.
        """
        return await self._send(calls.forget(entry_id, if_version, with_copies))

    async def outcome(self, entry_id: str, success: bool) -> wire.SaveResult:
        """Tell whether applying a learning worked. Raises NotFound."""
        return await self._send(calls.outcome(entry_id, wire.OutcomeRequest(success=success)))

    async def search(self, query: str, **options: Unpack[SearchOptions]) -> wire.SearchReply:
        """The passages closest to a question, by keyword and by meaning."""
        self._choose_namespace(options)
        return await self._send(calls.search(wire.SearchRequest(query=query, **options)))

    async def context(self, query: str, **options: Unpack[ContextOptions]) -> wire.ContextReply:
        """The ready-made block for a prompt; empty when nothing is relevant."""
        self._choose_namespace(options)
        return await self._send(calls.context(wire.ContextRequest(query=query, **options)))

    async def injection(self, injection_id: str) -> wire.InjectionView:
        """The receipt of an injection: what was found, what was left out and why. Raises NotFound."""
        return await self._send(calls.injection(injection_id))

    async def injections(self, limit: int | None = None) -> wire.InjectionList:
        """The receipts of the last injections, newest first."""
        return await self._send(calls.injections(limit))

    async def why_not(
        self, entry_id: str, query: str, **options: Unpack[ContextOptions]
    ) -> wire.ExplainReply:
        """Why an entry is in the context for a question, or not, as things are now."""
        self._choose_namespace(options)
        return await self._send(calls.why_not(wire.ExplainRequest(entry=entry_id, query=query, **options)))

    async def status(self) -> wire.StatusReply:
        """What the daemon says of itself."""
        return await self._send(calls.status())

    async def queue(self) -> wire.QueueReply:
        """The pending embeddings, and the buried ones."""
        return await self._send(calls.queue())

    async def retry_buried(self) -> wire.RetryReply:
        """Put the embeddings that were given up back into the queue."""
        return await self._send(calls.retry_buried())

    async def drain(self, timeout_s: float = 10.0) -> wire.QueueReply:
        """Wait until everything due is embedded, at most `timeout_s` s; returns what is pending then."""
        return await self._send(calls.drain(wire.DrainRequest(timeout_s=timeout_s)))

    async def reembed_status(self) -> wire.ReembedReply:
        """How far the model beside the one that answers is, and how the two compare."""
        return await self._send(calls.reembed_status())

    async def reembed(self, action: wire.ReembedAction) -> wire.ReembedReply:
        """Change which model answers: `approve` its cost, `switch`, `rollback`, `retire` the former one.

        Raises:
            NotFound: there is no other model.
            Conflict: it is not in the state for that.
        """
        return await self._send(calls.reembed(action))

    async def doctor(self, only: Sequence[str] = (), *, offline: bool = False) -> wire.DoctorReply:
        """What the daemon finds when it examines itself.

        `only` names checks or groups, by default all. `offline`: no embedding provider is asked but one
        in the daemon itself.
        """
        return await self._send(calls.doctor(only, offline=offline))

    async def doctor_fix(self, only: Sequence[str] = (), *, offline: bool = False) -> wire.DoctorReply:
        """Let the daemon repair what it can; what was done, and what it finds after that. As `doctor`."""
        return await self._send(calls.doctor_fix(only, offline=offline))

    async def export(self, **options: Unpack[ExportOptions]) -> wire.ExportReply:
        """A page of live entries of every namespace, oldest change first; its `next` is the next `cursor`."""
        return await self._send(calls.export(options))

    async def import_entries(
        self,
        entries: Sequence[wire.ImportEntry],
        *,
        dry_run: bool = False,
        include_forgotten: bool = False,
        trust: wire.ImportTrust = "external",
    ) -> SaveOutcomes:
        """Save what was exported, under its ids; a result or an error for each. Twice is once.

        What was forgotten there is an error (`Forgotten`), unless `include_forgotten`; so is what has expired
        (`Expired`). `trust="agent"`, for admins of the daemon, lets new entries into system prompts.
        """
        return await self._send(
            calls.import_entries(entries, dry_run=dry_run, include_forgotten=include_forgotten, trust=trust)
        )

    async def revoke(self, **source: Unpack[RevokeOptions]) -> wire.RevokeReply:
        """Take a source out of every answer, at once, with all that was made of its entries.

        `dry_run=True` only counts, `forget=True` erases them permanently soon after.

        Raises:
            InvalidInput: nothing names the source.
        """
        return await self._send(calls.revoke(wire.RevokeRequest(**source)))

    async def undo_revocation(self, revocation: int) -> wire.ReleaseReply:
        """Let what a revocation holds back into answers again. Raises NotFound."""
        return await self._send(calls.undo_revocation(revocation))

    async def release(self, entry_id: str) -> wire.ReleaseReply:
        """Let an entry out of quarantine. Raises NotFound when it is not there."""
        return await self._send(calls.release(entry_id))

    async def backup(self, file: str | None = None) -> wire.BackupReply:
        """Write a backup and read it back, while the daemon keeps serving; returns when it is verified.

        `file` is an absolute path on the daemon's machine; None: a new file in its folder of backups.

        Raises:
            InvalidInput: the file exists and is not a backup.
            AccessDenied: `file` was given by another user than the daemon's.
        """
        return await self._send(calls.backup(wire.BackupRequest(file=file)))

    async def audit(
        self,
        *,
        limit: int | None = None,
        before: int | None = None,
        kind: str | None = None,
        subject: str | None = None,
    ) -> wire.AuditPage:
        """Rows of the audit trail, newest first. For operators."""
        options = {"limit": limit, "before": before, "kind": kind, "subject": subject}
        return await self._send(calls.audit(options))

    async def verify_audit(self, head: str | None = None) -> wire.AuditVerdict:
        """Whether each row of the audit trail is as it was written; `head` is one reported earlier."""
        return await self._send(calls.verify_audit(wire.AuditVerifyRequest(head=head)))

    async def metrics(self) -> str:
        """The daemon's figures in the text format of Prometheus."""
        return await self._send(calls.metrics())

    async def alive(self) -> bool:
        """Whether a daemon answers, right now. Neither waits for one to start nor raises when none does."""
        try:
            return await self._send(calls.alive())
        except UNANSWERED:
            return False

    async def ready(self) -> bool:
        """Whether the daemon serves requests right now.

        Raises:
            DaemonUnreachable: it does not listen. This does not wait for it to start.
        """
        return await self._send(calls.ready())

    async def _deliver(self, batch: Batch) -> AsyncIterator[wire.SaveResult | AgentctxError]:
        delivery = BatchDelivery(batch)
        while (call := delivery.next_call()) is not None:
            try:
                delivery.answered(await self._send(call))
            except InvalidInput as error:
                delivery.refused(error)
            for outcome in delivery.settled():
                yield outcome
        for outcome in delivery.settled():
            yield outcome

    async def _send(self, call: ApiCall[T]) -> T:
        attempts = self._attempts(call)
        while True:
            try:
                return call.read(await self._exchange(call))
            except AgentctxError as error:
                pause_s = attempts.pause_after(error, time.monotonic())
                if pause_s is None:
                    raise
            await asyncio.sleep(pause_s)

    async def _exchange(self, call: ApiCall[T]) -> HttpReply:
        reply = await self._transport.request(
            call.method, call.path, call.body, call.headers, self._timeout_of(call)
        )
        self._note(reply)
        return reply


async def _each(
    requests: Iterable[wire.SaveRequest] | AsyncIterable[wire.SaveRequest],
) -> AsyncIterator[wire.SaveRequest]:
    if isinstance(requests, AsyncIterable):
        async for request in requests:
            yield request
    else:
        for request in requests:
            yield request
