"""What the daemon says of itself and of its queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from agentctx.wire.names import STRICT, CalibrationState
from agentctx.wire.reembed import ReembedReply


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
    """The pending embeddings."""

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
class ProviderCost:
    """What a provider over HTTP costs, in USD. Days are UTC days."""

    usd_per_million_tokens: float | None
    """Null when no price is known."""
    price_source: str
    """The source: `published`, with the month, or the setting; empty when no price is known."""
    usd_per_day: float
    """The cap; 0 is none."""
    confirm_usd: float
    """`agentctx ingest` asks before it costs more than that; 0 never asks."""
    tokens_today: int
    usd_today: float
    cap_reached: bool
    """Whether calls are refused until 00:00 UTC."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderStatus:
    """`state`: ok, starting, off, or degraded with `reason`.

    `cost` is null where nothing is asked over HTTP. `calibration` says whether relevance understands the
    model's similarities: unless it is `ready`, words decide what is injected. Null without a model.
    """

    id: str
    model: str
    dimension: int
    state: Literal["ok", "starting", "off", "degraded"]
    reason: str | None
    cost: ProviderCost | None = None
    calibration: CalibrationState | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseStatus:
    """Sizes in bytes; `commits` since the start of the daemon. `path` of a server is its address.

    `fault` is why nothing can be saved now; null while saves are accepted. `warnings` say how acknowledged
    saves can be lost, a sentence each; empty where nothing is known that could.
    """

    path: str
    engine: str
    bytes: int
    wal_bytes: int
    commits: int
    fault: str | None = None
    warnings: list[str] = field(default_factory=list)


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
    """Searches that used keywords only, or lacked some keywords."""
    embedded: int
    """Vectors stored."""
    provider_failures: int
    """Provider calls that failed."""
    save: Latency | None
    ask: Latency | None
    embed: Latency | None
    """One provider call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProxyStatus:
    """The proxy's port on 127.0.0.1."""

    port: int
    token_file: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusReply:
    """The daemon's state. CPU seconds are of its process since it started."""

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
    vector_memory_bytes: int
    """Of it for the vectors that are searched in memory; 0: the database is searched."""
    activity: ActivityStatus
    proxy: ProxyStatus | None = None
    """None: calls go through the proxy over the socket only."""
    reembed: ReembedReply | None = None
    """Null while only one model is configured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BackupRequest:
    """Where the backup goes: an absolute path on the daemon's machine; null: into its folder of backups."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    file: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BackupReply:
    """A backup that was written, and read back to the last byte."""

    file: str
    made: str
    bytes: int
    schema: int
    """Version of the newest migration in it."""
    entries: int
    versions: int
    """Of all entries, the live ones included."""
    vectors: int
    removed: list[str]
    """Older backups that were removed."""
