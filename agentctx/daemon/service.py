"""The daemon's work, free of HTTP: from wire requests to stores and RAG, and back."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import Any

from agentctx import __version__
from agentctx.config.schema import Settings
from agentctx.daemon.usage import resident_bytes
from agentctx.embedding_queue.space_keeper import SpaceKeeper
from agentctx.embedding_queue.worker import EmbeddingQueue
from agentctx.errors import AgentctxError, InvalidInput, TooLarge
from agentctx.rag.service import Question, RAGService
from agentctx.server.service import Peer
from agentctx.server.views import entry_view, passage, save_result
from agentctx.storage.base import Storage
from agentctx.storage.records import Clock, Filter, IdempotencyKey, Job
from agentctx.stores.base import SaveContext, StoreResult
from agentctx.stores.registry import Stores
from agentctx.times import parse_time
from agentctx.wire import (
    BuriedJob,
    ContextReply,
    ContextRequest,
    DatabaseStatus,
    EditRequest,
    EntryPage,
    EntryView,
    ForgetReply,
    OutcomeRequest,
    ProviderStatus,
    QueueReply,
    RetryReply,
    SaveRequest,
    SaveResult,
    SearchReply,
    SearchRequest,
    StatusReply,
    VersionList,
)

_ENVELOPE = frozenset({"collection", "namespace", "session", "agent", "origin", "ttl", "if_version", "wait"})
WAIT_TIMEOUT_S = 30.0
"""How long a save with `wait` may wait for its vectors; after that it answers `pending`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the service works with. `queue` and `keeper` are None when nothing is embedded."""

    settings: Settings
    storage: Storage
    stores: Stores
    rag: RAGService
    queue: EmbeddingQueue | None
    keeper: SpaceKeeper | None
    clock: Clock
    socket: str
    not_ready: Callable[[], str | None]


class DaemonService:
    """Implements `server.service.Service`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._started = time.monotonic()

    async def save(
        self, requests: Sequence[SaveRequest], peer: Peer, *, idempotency_key: str | None = None
    ) -> list[SaveResult | AgentctxError]:
        return list(
            await asyncio.gather(
                *(
                    self._save_one(request, peer, _numbered(idempotency_key, number))
                    for number, request in enumerate(requests)
                )
            )
        )

    async def edit(self, entry_id: str, request: EditRequest, peer: Peer) -> SaveResult:  # noqa: ARG002
        changes = _given(request, without=frozenset({"ttl", "if_version", "wait"}))
        if not changes and request.ttl is None:
            raise InvalidInput("this edit changes nothing", hint="Send at least one field to change.")
        result = await self._parts.stores.edit(
            entry_id, changes, if_version=request.if_version, ttl=request.ttl
        )
        return await self._settled(result, wait=request.wait is not None)

    async def get(self, entry_id: str, peer: Peer, *, version: int | None = None) -> EntryView:  # noqa: ARG002
        return entry_view(await self._parts.stores.get(entry_id, version))

    async def list_entries(
        self,
        peer: Peer,  # noqa: ARG002
        *,
        namespace: str,
        collections: Sequence[str] | None,
        session: str | None,
        limit: int,
        cursor: str | None,
    ) -> EntryPage:
        for collection in collections or ():
            self._parts.stores.check_collection(collection)
        entries, after = await self._parts.stores.list_entries(
            namespace=namespace,
            collections=collections,
            session=session,
            limit=limit,
            before=_position(cursor),
        )
        return EntryPage(entries=[entry_view(e) for e in entries], next=None if after is None else str(after))

    async def versions(self, entry_id: str, peer: Peer) -> VersionList:  # noqa: ARG002
        return VersionList(versions=[entry_view(e) for e in await self._parts.stores.history(entry_id)])

    async def forget(self, entry_id: str, peer: Peer, *, if_version: int | None = None) -> ForgetReply:  # noqa: ARG002
        removed = await self._parts.stores.delete(entry_id, if_version=if_version)
        return ForgetReply(id=entry_id, versions=removed)

    async def outcome(self, entry_id: str, request: OutcomeRequest, peer: Peer) -> SaveResult:  # noqa: ARG002
        saved = await self._parts.stores.learning.record_outcome(entry_id, success=request.success)
        return save_result(StoreResult(saved))

    async def search(self, request: SearchRequest, peer: Peer) -> SearchReply:  # noqa: ARG002
        answer = await self._parts.rag.retrieve(self._question(request))
        return SearchReply(results=[passage(hit) for hit in answer.hits], degraded=answer.degraded)

    async def context(self, request: ContextRequest, peer: Peer) -> ContextReply:  # noqa: ARG002
        budget = request.budget_tokens
        if budget is not None and budget <= 0:
            raise InvalidInput("budget_tokens must be positive")
        if not self._parts.settings.embedding.rag.enabled:
            return ContextReply(
                block="", tokens=0, results=[], degraded="off: embedding.rag.enabled is false"
            )
        context = await self._parts.rag.context(
            self._question(request),
            budget_tokens=budget or self._parts.settings.embedding.rag.budget_tokens,
        )
        return ContextReply(
            block=context.block,
            tokens=context.tokens,
            results=[passage(hit) for hit in context.hits],
            degraded=context.degraded,
        )

    async def status(self, peer: Peer) -> StatusReply:
        stats = await self._parts.storage.stats()
        times = os.times()
        return StatusReply(
            version=__version__,
            pid=os.getpid(),
            uptime_seconds=round(time.monotonic() - self._started, 3),
            socket=self._parts.socket,
            entries=dict(stats.entries),
            chunks=stats.chunks,
            vectors=stats.vectors,
            provider=self._provider_status(),
            queue=await self.queue(peer),
            database=DatabaseStatus(
                path=stats.path,
                sqlite=stats.engine,
                bytes=stats.bytes,
                wal_bytes=stats.wal_bytes,
                commits=stats.commits,
            ),
            embed_cpu_seconds=self._parts.keeper.cpu_seconds if self._parts.keeper else 0.0,
            cpu_seconds=round(times.user + times.system, 3),
            rss_bytes=resident_bytes(),
        )

    async def queue(self, peer: Peer) -> QueueReply:  # noqa: ARG002
        depth = await self._parts.storage.depth()
        age_ms = 0 if depth.oldest is None else max(0, self._parts.clock() - depth.oldest)
        return QueueReply(
            pending=depth.pending,
            buried=depth.buried,
            oldest_seconds=age_ms / 1_000,
            buried_jobs=[
                BuriedJob(
                    job=row.job,
                    entry=row.entry,
                    collection=row.collection,
                    attempts=row.attempts,
                    reason=row.reason,
                )
                for row in (await self._parts.storage.buried() if depth.buried else [])
            ],
        )

    async def retry(self, peer: Peer) -> RetryReply:  # noqa: ARG002
        retried = await self._parts.storage.retry_buried()
        if retried and self._parts.queue is not None:
            self._parts.queue.look_again()
        return RetryReply(retried=retried)

    def not_ready(self) -> str | None:
        return self._parts.not_ready()

    async def _save_one(
        self, request: SaveRequest, peer: Peer, idempotency_key: str | None
    ) -> SaveResult | AgentctxError:
        context = SaveContext(
            namespace=request.namespace,
            session=request.session,
            agent=request.agent,
            origin=request.origin,
            principal=peer.uid,
            ttl=request.ttl,
            if_version=request.if_version,
            idempotency=_idempotency(idempotency_key, request, peer),
        )
        try:
            result = await self._parts.stores.save(
                request.collection, _given(request, without=_ENVELOPE), context
            )
            return await self._settled(result, wait=request.wait is not None)
        except AgentctxError as error:
            return error

    async def _settled(self, result: StoreResult, *, wait: bool) -> SaveResult:
        reply = save_result(result)
        if not (wait and self._parts.queue is not None and reply.embedding == "pending"):
            return reply
        if result.saved.jobs:
            await self._parts.queue.wait_settled(_ids(result.saved.jobs), WAIT_TIMEOUT_S)
        entry = await self._parts.stores.get(reply.id)
        return replace(reply, embedding=entry_view(entry).embedding)

    def _question(self, request: SearchRequest) -> Question:
        limits, rag = self._parts.settings.limits, self._parts.settings.embedding.rag
        if len(request.query) > limits.max_query_chars:
            most = limits.max_query_chars
            raise TooLarge(f"the question has {len(request.query)} characters, at most {most} are taken")
        if not request.query.strip():
            raise InvalidInput("the question is empty", hint="Ask in a few words.")
        limit = rag.max_results if request.limit is None else request.limit
        if not 1 <= limit <= limits.max_results:
            raise InvalidInput(f"limit is {limit}, it may be 1 to {limits.max_results}")
        distance = rag.max_distance if request.max_distance is None else request.max_distance
        if not 0 <= distance <= 2:
            raise InvalidInput("max_distance is a cosine distance: 0 (keep all) to 2")
        return Question(
            text=request.query,
            wanted=self._filter(request),
            limit=limit,
            order=request.order,
            max_distance=distance,
        )

    def _filter(self, request: SearchRequest) -> Filter:
        stores, now = self._parts.stores, self._parts.clock()
        collections = tuple(request.collections or self._parts.settings.embedding.rag.collections)
        for collection in collections:
            stores.check_collection(collection)
        return Filter(
            namespace=request.namespace,
            collections=None if set(collections) >= set(stores.collections) else collections,
            session=request.session,
            agent=request.agent,
            category=request.category,
            tags=tuple(request.tags or ()),
            since=None if request.since is None else parse_time(request.since, now=now),
            until=None if request.until is None else parse_time(request.until, now=now),
        )

    def _provider_status(self) -> ProviderStatus:
        keeper = self._parts.keeper
        if keeper is None:
            return ProviderStatus(id="none", model="", dimension=0, state="off", reason=None)
        return ProviderStatus(
            id=keeper.provider.id,
            model=keeper.provider.model,
            dimension=keeper.provider.dimension,
            state=keeper.state,
            reason=keeper.reason,
        )


def _given(request: SaveRequest | EditRequest, *, without: frozenset[str]) -> dict[str, Any]:
    """The fields that were sent, without the named ones."""
    names = (field.name for field in fields(request) if field.name not in without)
    return {name: value for name in names if (value := getattr(request, name)) is not None}


def _numbered(key: str | None, number: int) -> str | None:
    return None if key is None else f"{key}/{number}"


def _idempotency(key: str | None, request: SaveRequest, peer: Peer) -> IdempotencyKey | None:
    if key is None:
        return None
    meaning = repr(_given(request, without=frozenset({"wait"})))
    return IdempotencyKey(peer.uid, key, sha256(meaning.encode("utf-8", "surrogatepass")).digest())


def _position(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise InvalidInput("this cursor was not made by a list", hint="Send the `next` of the page before.")
    return int(cursor)


def _ids(jobs: Iterable[Job]) -> list[int]:
    return [job.id for job in jobs]
