"""The status of the daemon and its queue."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from agentctx import __version__, wire
from agentctx.commit import own_commit
from agentctx.errors import AgentctxError, InvalidInput, StorageFailed
from agentctx.host.process_memory import resident_bytes
from agentctx.model_adapters.refusals import Refusals
from agentctx.service.base import Peer
from agentctx.service.parts import Parts, PartsHolder
from agentctx.service.reembed import reembed_summary
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


class Status(PartsHolder):
    """The part of the service that reports on the daemon and its queue."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._started = time.monotonic()
        self._known: _CachedStatus | None = None

    async def status(self, peer: Peer) -> wire.StatusReply:
        known = await self._look(peer)
        stats = known.stats
        times = os.times()
        return wire.StatusReply(
            version=__version__,
            commit=own_commit(),
            pid=os.getpid(),
            uptime_seconds=round(time.monotonic() - self._started, 3),
            socket=self._parts.socket,
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
                fault=_message(self._parts.storage.files.fault),
                warnings=list(stats.warnings),
            ),
            embed_cpu_seconds=self._parts.keeper.cpu_seconds if self._parts.keeper else 0.0,
            cpu_seconds=round(times.user + times.system, 3),
            rss_bytes=resident_bytes(),
            vector_memory_bytes=stats.vector_memory_bytes,
            activity=self._parts.recorder.activity(embedded=self._embedded()),
            proxy=self._proxy_status(),
            reembed=known.reembed,
            without_context=without_context(self._parts.refusals),
        )

    async def _look(self, peer: Peer) -> _CachedStatus:
        """Read the database; during a storage fault, return the last result if there is one."""
        try:
            self._known = _CachedStatus(
                await self._parts.storage.stats(),
                await self.queue(peer),
                await reembed_summary(self._parts),
            )
        except StorageFailed:
            if self._parts.storage.files.fault is None or self._known is None:
                raise
        return self._known

    async def queue(self, peer: Peer) -> wire.QueueReply:  # noqa: ARG002
        depth = await self._parts.storage.jobs.depth()
        age_ms = 0 if depth.oldest is None else max(0, self._parts.clock() - depth.oldest)
        return wire.QueueReply(
            pending=depth.pending,
            buried=depth.buried,
            oldest_seconds=age_ms / 1_000,
            buried_jobs=[
                wire.BuriedJob(**asdict(row))
                for row in (await self._parts.storage.jobs.buried() if depth.buried else [])
            ],
        )

    async def retry(self, peer: Peer) -> wire.RetryReply:  # noqa: ARG002
        retried = await self._parts.storage.jobs.retry_buried()
        if retried and self._parts.lanes is not None:
            self._parts.lanes.recheck_table()
        return wire.RetryReply(retried=retried)

    async def drain(self, request: wire.DrainRequest, peer: Peer) -> wire.QueueReply:
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
        queue, storage = self._parts.queue, self._parts.storage
        while queue is not None and (await storage.jobs.depth()).pending:
            await queue.idle()
            if (await storage.jobs.depth()).pending:
                await asyncio.sleep(DRAIN_POLL_S)

    def not_ready(self) -> str | None:
        if reason := self._parts.not_ready():
            return reason
        fault = _message(self._parts.storage.files.fault)
        return f"nothing can be saved: {fault}" if fault else None

    def degraded(self) -> Mapping[str, str]:
        keeper = self._parts.keeper
        reasons = {
            "embeddings": keeper.reason if keeper else None,
            "words": self._parts.storage.search.words_shortfall,
        }
        return {name: reason for name, reason in reasons.items() if reason}

    def _embedded(self) -> int:
        return self._parts.queue.status().embedded if self._parts.queue else 0

    def _proxy_status(self) -> wire.ProxyStatus | None:
        proxy = self._parts.settings.proxy
        if not proxy.tcp_port:
            return None
        token = proxy.token_path(self._parts.database.parent)
        return wire.ProxyStatus(port=proxy.tcp_port, token_file=str(token))

    def _provider_status(self) -> wire.ProviderStatus:
        keeper = self._parts.keeper
        if keeper is None:
            return wire.ProviderStatus(id="none", model="", dimension=0, state="off", reason=None)
        return wire.ProviderStatus(
            id=keeper.provider.id,
            model=keeper.provider.model,
            dimension=keeper.provider.dimension,
            state=keeper.state,
            reason=keeper.reason,
            cost=self._provider_cost(),
            calibration=self._parts.calibrator.state(keeper.provider),
        )

    def _provider_cost(self) -> wire.ProviderCost | None:
        spending = self._parts.spending
        if spending is None:
            return None
        price, today = spending.price, spending.today()
        return wire.ProviderCost(
            usd_per_million_tokens=price.usd_per_million_tokens if price else None,
            price_source=price.source if price else "",
            usd_per_day=spending.cap_usd,
            confirm_usd=self._parts.settings.embedding.limits.confirm_usd,
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
