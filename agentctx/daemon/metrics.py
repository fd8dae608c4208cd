"""What /metrics shows: what was recorded, and what is read off at that moment."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Mapping
from pathlib import Path

import structlog

from agentctx import __version__
from agentctx.daemon.parts import PartsHolder
from agentctx.daemon.usage import resident_bytes
from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.sqlite.driver import sqlite_version
from agentctx.telemetry import metrics
from agentctx.telemetry.metrics import Metric
from agentctx.telemetry.tally import Samples

log = structlog.get_logger("agentctx.metrics")


class Metrics(PartsHolder):
    """The part of `server.service.Service` for Prometheus."""

    async def metrics(self) -> bytes:
        """The text format, version 0.0.4. It answers also when the database does not."""
        samples: Samples = {
            **self._parts.recorder.samples(),
            **_plain({**await self._queue_depth(), **self._embedding(), **self._process()}),
            **_plain(file_sizes(self._parts.database)),
            metrics.BUILD: {(__version__, platform.python_version(), sqlite_version()): 1.0},
        }
        return await asyncio.to_thread(_exposition, samples)

    async def _queue_depth(self) -> Mapping[Metric, float]:
        try:
            depth = await self._parts.storage.depth()
        except (StorageFailed, DeadlineExceeded) as error:
            log.warning("queue_not_readable", code=error.code, problem=error.message)
            return {metrics.DATABASE_READABLE: 0.0}
        age_ms = 0 if depth.oldest is None else max(0, self._parts.clock() - depth.oldest)
        return {
            metrics.DATABASE_READABLE: 1.0,
            metrics.QUEUE_PENDING: depth.pending,
            metrics.QUEUE_BURIED: depth.buried,
            metrics.QUEUE_OLDEST: age_ms / 1_000,
        }

    def _embedding(self) -> Mapping[Metric, float]:
        queue, keeper = self._parts.queue, self._parts.keeper
        if queue is None or keeper is None:
            return {metrics.EMBEDDINGS_READY: 0.0}
        status = queue.status()
        return {
            metrics.EMBEDDINGS_READY: float(keeper.searched is not None),
            metrics.VECTORS_STORED: status.embedded,
            metrics.VECTORS_STALE: status.stale,
            metrics.JOBS_BURIED: status.buried,
            metrics.EMBED_CPU: keeper.cpu_seconds,
        }

    def _process(self) -> Mapping[Metric, float]:
        times = os.times()
        return {
            metrics.RESIDENT: resident_bytes(),
            metrics.CPU: times.user + times.system,
            metrics.STARTED: self._parts.recorder.started,
        }


def file_sizes(database: Path) -> Mapping[Metric, float]:
    """What the database takes on the disk. Asks for sizes only: to open the file would drop its locks."""
    return {
        metrics.DATABASE_BYTES: _size(database),
        metrics.WAL_BYTES: _size(database.with_name(f"{database.name}-wal")),
    }


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _plain(values: Mapping[Metric, float]) -> Samples:
    """Samples of metrics without labels."""
    return {metric: {(): float(value)} for metric, value in values.items()}


def _exposition(samples: Samples) -> bytes:
    from agentctx.telemetry.prometheus import exposition

    return exposition(samples)
