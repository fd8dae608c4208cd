"""The content of /metrics: recorded totals and values read at scrape time."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from agentctx import __version__
from agentctx.config.schema import Settings
from agentctx.embedding.providers.spending import Spending
from agentctx.embedding.queue.lanes import Lanes
from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.service.backup import folder_of
from agentctx.service.process_memory import resident_bytes
from agentctx.service.receipts import ReceiptLog
from agentctx.service.self_check import SelfCheck
from agentctx.service.telemetry import metrics
from agentctx.service.telemetry.metrics import Labels, Metric, Samples
from agentctx.service.telemetry.recorder import Recorder
from agentctx.storage.backups import automatic_backups
from agentctx.storage.base import Storage
from agentctx.storage.offline import size_of
from agentctx.storage.opening import offline_storage, server_of

_PROVED = (
    metrics.PROVED_AT,
    metrics.INVARIANT_VIOLATIONS,
    metrics.FINGERPRINT_MISMATCHES,
    metrics.CANARIES,
    metrics.CANARIES_LOST,
)
_SPENT = (metrics.TOKENS_SENT, metrics.USD_SPENT, metrics.USD_TODAY, metrics.USD_CAP)

log = structlog.get_logger("agentctx.metrics")


@dataclass(frozen=True)
class Metrics:
    """Metrics for Prometheus; `self_check` provides the results of background checks."""

    storage: Storage
    lanes: Lanes | None
    self_check: SelfCheck
    receipts: ReceiptLog
    recorder: Recorder
    settings: Settings
    database: Path

    async def metrics(self) -> bytes:
        """Return the text format, version 0.0.4, even if the database cannot be read."""
        samples: Samples = {
            **self.recorder.samples(),
            **_plain({**await self._queue_depth(), **self._embedding(), **self._process()}),
            **self._proof_results(),
            **_plain(file_sizes(self.database)),
            **_plain(await asyncio.to_thread(_backups, self.settings, self.database.parent)),
            metrics.BUILD: {(__version__, platform.python_version(), offline_storage().version): 1.0},
        }
        return await asyncio.to_thread(_exposition, samples)

    async def _queue_depth(self) -> Mapping[Metric, float]:
        try:
            depth = await self.storage.jobs.depth()
            quarantined = await self.storage.trust.quarantined()
        except (StorageFailed, DeadlineExceeded) as error:
            log.warning("queue_not_readable", code=error.code, problem=error.message)
            return {metrics.DATABASE_READABLE: 0.0}
        age_ms = 0 if depth.oldest is None else max(0, self.storage.clock() - depth.oldest)
        return {
            metrics.DATABASE_READABLE: 1.0,
            metrics.QUEUE_PENDING: depth.pending,
            metrics.QUEUE_BURIED: depth.buried,
            metrics.QUEUE_OLDEST: age_ms / 1_000,
            metrics.QUARANTINED: quarantined,
        }

    def _embedding(self) -> Mapping[Metric, float]:
        if self.lanes is None:
            return {metrics.EMBEDDINGS_READY: 0.0}
        builder, status = self.lanes.leading.builder, self.lanes.leading.queue.status()
        return {
            metrics.EMBEDDINGS_READY: float(builder.searched is not None),
            metrics.VECTORS_STORED: status.embedded,
            metrics.VECTORS_STALE: status.stale,
            metrics.JOBS_BURIED: status.buried,
            metrics.EMBED_CPU: builder.cpu_seconds,
            **_spent(self.lanes.leading.spending),
        }

    def _process(self) -> Mapping[Metric, float]:
        times = os.times()
        return {
            metrics.RESIDENT: resident_bytes(),
            metrics.CPU: times.user + times.system,
            metrics.STARTED: self.recorder.started,
            metrics.RECEIPTS_DROPPED: self.receipts.dropped,
            metrics.CHECKSUM_FAILURES: self.storage.scrub.failures,
            metrics.DATABASE_WRITABLE: float(self.storage.fault is None),
            metrics.LOOP_LAG_WORST: self.recorder.loop_lag.worst_s,
        }

    def _proof_results(self) -> Samples:
        """Return the results of background checks; no sample before the first check."""
        samples: dict[Metric, dict[Labels, float]] = {metric: {} for metric in _PROVED}
        if (proof := self.self_check.latest_proof) is not None:
            asked = proof.retrieval
            samples[metrics.PROVED_AT] = {(): proof.at / 1_000}
            samples[metrics.INVARIANT_VIOLATIONS] = {(): proof.violations}
            samples[metrics.FINGERPRINT_MISMATCHES] = {(): proof.mismatches}
            samples[metrics.CANARIES] = {("words",): asked.words, ("vectors",): asked.vectors}
            lost_words, lost_vectors = len(asked.lost_words), len(asked.lost_vectors)
            samples[metrics.CANARIES_LOST] = {("words",): lost_words, ("vectors",): lost_vectors}
        return samples


def _spent(spending: Spending | None) -> Mapping[Metric, float]:
    if spending is None:
        return dict.fromkeys(_SPENT, 0.0)
    spent, today = spending.since_start, spending.today()
    return dict(zip(_SPENT, (spent.tokens, spent.usd, today.usd, spending.cap_usd), strict=True))


def file_sizes(database: Path) -> Mapping[Metric, float]:
    """Return the sizes of the database on disk, without opening the file: closing it would drop its locks."""
    wal = database.with_name(f"{database.name}-wal")
    return {metrics.DATABASE_BYTES: size_of(database), metrics.WAL_BYTES: size_of(wal)}


def _backups(settings: Settings, data_dir: Path) -> Mapping[Metric, float]:
    """Return the automatic backups; nothing if a server's operator makes them."""
    if server_of(settings):
        return {}
    kept = automatic_backups(folder_of(settings.backup, data_dir))
    return {metrics.BACKUP_MADE: kept[-1].made / 1_000 if kept else 0.0}


def _plain(values: Mapping[Metric, float]) -> Samples:
    """Return the values as samples without labels."""
    return {metric: {(): float(value)} for metric, value in values.items()}


def _exposition(samples: Samples) -> bytes:
    from agentctx.service.telemetry.prometheus import exposition

    return exposition(samples)
