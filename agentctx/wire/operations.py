"""What the daemon says of itself and of its queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
