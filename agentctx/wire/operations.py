"""What the daemon says of itself and of its queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from agentctx.wire.names import STRICT


@dataclass(frozen=True, kw_only=True, slots=True)
class BuriedJob:
    """An embedding that was given up, with the reason."""

    job: int
    entry: str
    collection: str
    attempts: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueReply:
    """The embeddings still owed."""

    pending: int
    buried: int
    oldest_seconds: float
    buried_jobs: list[BuriedJob]


@dataclass(frozen=True, kw_only=True, slots=True)
class DrainRequest:
    """How long the answer may wait for the queue to become empty, in seconds."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    timeout_s: float = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryReply:
    """How many buried jobs were put back into the queue."""

    retried: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderStatus:
    """`state`: ok, starting, off, or degraded with `reason`."""

    id: str
    model: str
    dimension: int
    state: Literal["ok", "starting", "off", "degraded"]
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseStatus:
    """Sizes in bytes; `commits` since the start of the daemon."""

    path: str
    sqlite: str
    bytes: int
    wal_bytes: int
    commits: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Latency:
    """Of the last few hundred events, in milliseconds."""

    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ActivityStatus:
    """Counts since the daemon started, and how long the latest took; null when there was none yet."""

    saved: int
    """Entries created or changed."""
    asked: int
    """Questions answered."""
    degraded: int
    """Questions answered by words alone."""
    embedded: int
    """Vectors stored."""
    provider_failures: int
    """Provider calls that failed."""
    save: Latency | None
    ask: Latency | None
    embed: Latency | None
    """One provider call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusReply:
    """What the daemon says of itself. CPU seconds are those of its process since it started."""

    version: str
    pid: int
    uptime_seconds: float
    socket: str
    entries: dict[str, int]
    chunks: int
    vectors: int
    provider: ProviderStatus
    queue: QueueReply
    database: DatabaseStatus
    embed_cpu_seconds: float
    cpu_seconds: float
    rss_bytes: int
    activity: ActivityStatus
