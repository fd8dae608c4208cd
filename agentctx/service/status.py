"""The status of the daemon and its queue."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from agentctx import __version__, wire
from agentctx.config.commit import own_commit
from agentctx.embedding.providers.spending import Spending
from agentctx.embedding.queue.lane import Lane
from agentctx.embedding.queue.lanes import Lanes
from agentctx.errors import AgentctxError, InvalidInput, StorageFailed
from agentctx.service import guard_rules as rules
from agentctx.service.access.grants import ALL_RIGHTS, Rights
from agentctx.service.access.policy import DAEMON, MEMBER
from agentctx.service.backup import Backups
from agentctx.service.base import CurrentSettings, Peer
from agentctx.service.operations import Operation
from agentctx.service.process_memory import resident_bytes
from agentctx.service.rag.calibrator import Calibrator
from agentctx.service.reembed import ModelChange
from agentctx.service.refusals import Refusals
from agentctx.service.reviews import capture_states
from agentctx.service.telemetry.recorder import Recorder
from agentctx.storage.base import Storage
from agentctx.storage.records import StorageStats
from agentctx.times import format_time

LONGEST_DRAIN_S = 60.0
DRAIN_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class _CachedStatus:
    """The part of a status that comes from the database."""

    stats: StorageStats
    queue: wire.QueueReply
    reembed: wire.ReembedReply | None
    captures: list[wire.CaptureState]


@dataclass(kw_only=True)
class Status:
    """Reports on the daemon and its queue. `not_serving` says why requests cannot be served yet, or None."""

    storage: Storage
    lanes: Lanes | None
    reembed: ModelChange
    calibrator: Calibrator
    refusals: Refusals
    recorder: Recorder
    backups: Backups
    settings: CurrentSettings
    data_dir: Path
    socket: Path
    not_serving: Callable[[], str | None]
    _started: float = field(default_factory=time.monotonic, init=False)
    _known: _CachedStatus | None = field(default=None, init=False)

    @Operation("GET", "/status", DAEMON)
    async def status(self, peer: Peer) -> wire.StatusReply:
        """Report the daemon's stored data, activity and costs."""
        known = await self._stored_status(peer)
        stats, lane = known.stats, self._lane
        times, proxy = os.times(), self.settings.value.proxy
        return wire.StatusReply(
            version=__version__,
            commit=own_commit(),
            pid=os.getpid(),
            uptime_seconds=round(time.monotonic() - self._started, 3),
            socket=str(self.socket),
            entries=dict(stats.entries),
            chunks=stats.chunks,
            vectors=stats.vectors,
            provider=self._provider_status(),
            queue=known.queue,
            database=wire.DatabaseStatus(
                path=stats.path,
                engine=stats.engine,
                bytes=stats.bytes,
                wal_bytes=stats.wal_bytes,
                commits=stats.commits,
                fault=_message(self.storage.fault),
                warnings=list(stats.warnings),
            ),
            embed_cpu_seconds=lane.builder.cpu_seconds if lane else 0.0,
            cpu_seconds=round(times.user + times.system, 3),
            rss_bytes=resident_bytes(),
            vector_memory_bytes=stats.vector_memory_bytes,
            word_memory_bytes=stats.word_memory_bytes,
            activity=self.recorder.activity(embedded=lane.queue.status().embedded if lane else 0),
            proxy=wire.ProxyStatus(port=proxy.tcp_port, token_file=str(proxy.token_path(self.data_dir)))
            if proxy.tcp_port
            else None,
            reembed=known.reembed,
            without_context=without_context(self.refusals),
            backups=wire.BackupStatus(**await self.backups.holding()),
            captures=known.captures,
        )

    async def _stored_status(self, peer: Peer) -> _CachedStatus:
        """Read the database; during a storage fault, return the last result if there is one."""
        try:
            self._known = _CachedStatus(
                await self.storage.stats(),
                await self.queue(peer),
                await self.reembed.summary(),
                capture_states(await self.storage.trust.captures()),
            )
        except StorageFailed:
            if self.storage.fault is None or self._known is None:
                raise
        return self._known

    @Operation("GET", "/access", MEMBER, rules.with_rights)
    async def access(self, peer: Peer, *, rights: Rights = ALL_RIGHTS) -> wire.AccessReply:
        """Say what the caller may do, and the quotas with what is used; for admins, of every user."""
        settings = self.settings.value
        grants = settings.access.grants if rights.is_admin else ()
        uids = sorted({peer.uid, *(each.uid for each in grants if each.uid is not None)})
        return wire.AccessReply(
            rights={pattern: right.name.lower() for pattern, right in rights.by_pattern.items()},
            grants=[each.model_dump() for each in grants],
            quotas=settings.quotas.model_dump(),
            used={str(uid): asdict(await self.storage.usage(uid)) for uid in uids},
        )

    @Operation("GET", "/queue", DAEMON)
    async def queue(self, peer: Peer) -> wire.QueueReply:  # noqa: ARG002
        """Report pending and buried embeddings."""
        depth = await self.storage.jobs.depth()
        age_ms = 0 if depth.oldest is None else max(0, self.storage.clock() - depth.oldest)
        return wire.QueueReply(
            pending=depth.pending,
            buried=depth.buried,
            oldest_seconds=age_ms / 1_000,
            buried_jobs=[
                wire.BuriedJob(**asdict(row))
                for row in (await self.storage.jobs.buried() if depth.buried else [])
            ],
        )

    @Operation("POST", "/queue/retry", DAEMON, errors=(507,))
    async def retry(self, peer: Peer) -> wire.RetryReply:  # noqa: ARG002
        """Put the buried jobs back into the queue."""
        retried = await self.storage.jobs.retry_buried()
        if retried and self.lanes is not None:
            self.lanes.recheck_table()
        return wire.RetryReply(retried=retried)

    @Operation("POST", "/queue/drain", DAEMON)
    async def drain(self, request: wire.DrainRequest, peer: Peer) -> wire.QueueReply:
        """Wait, for at most `timeout_s` seconds, until all pending embeddings are done."""
        if not 0 < request.timeout_s <= LONGEST_DRAIN_S:
            most = f"{LONGEST_DRAIN_S:g}"
            raise InvalidInput(
                f"timeout_s must be at most {most}.", hint="Repeat the request when it expires."
            )
        with suppress(TimeoutError):
            async with asyncio.timeout(request.timeout_s):
                await self._drained()
        return await self.queue(peer)

    async def _drained(self) -> None:
        """Wait until no job is pending. Postponed jobs send no signal, so poll for them every second."""
        queue, jobs = self._lane.queue if self._lane else None, self.storage.jobs
        while queue is not None and (await jobs.depth()).pending:
            await queue.idle()
            if (await jobs.depth()).pending:
                await asyncio.sleep(DRAIN_POLL_S)

    def not_ready(self) -> str | None:
        """Return why requests cannot be served yet; None if they can."""
        if reason := self.not_serving():
            return reason
        fault = _message(self.storage.fault)
        return f"nothing can be saved: {fault}" if fault else None

    def degraded(self) -> Mapping[str, str]:
        """Return the degraded functions, each with the reason; requests are still served."""
        reasons = {
            "embeddings": self._lane.builder.reason if self._lane else None,
            "words": self.storage.search.keyword_gap,
        }
        return {name: reason for name, reason in reasons.items() if reason}

    @property
    def _lane(self) -> Lane | None:
        """The model that answers, None if nothing is embedded."""
        return self.lanes.leading if self.lanes else None

    def _provider_status(self) -> wire.ProviderStatus:
        if self._lane is None:
            return wire.ProviderStatus(id="none", model="", dimension=0, state="off", reason=None)
        builder, spending = self._lane.builder, self._lane.spending
        return wire.ProviderStatus(
            id=builder.provider.id,
            model=builder.provider.model,
            dimension=builder.provider.dimension,
            state=builder.state,
            reason=builder.reason,
            cost=self._provider_cost(spending) if spending else None,
            calibration=self.calibrator.state(builder.provider),
        )

    def _provider_cost(self, spending: Spending) -> wire.ProviderCost:
        price, today = spending.price, spending.today()
        return wire.ProviderCost(
            usd_per_million_tokens=price.usd_per_million_tokens if price else None,
            price_source=price.source if price else "",
            usd_per_day=spending.cap_usd,
            confirm_usd=self.settings.value.embedding.limits.confirm_usd,
            tokens_today=today.tokens,
            usd_today=round(today.usd, 6),
            cap_reached=spending.is_cap_reached,
        )


def without_context(refusals: Refusals) -> list[wire.WithoutContext]:
    """Return the models whose calls go without context now."""
    return [
        wire.WithoutContext(
            upstream=each.upstream, model=each.model, status=each.status, until=format_time(each.until)
        )
        for each in refusals.resting()
    ]


def _message(fault: AgentctxError | None) -> str | None:
    return None if fault is None else fault.message
