"""The daemon's status, queue, backups and change of the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from agentctx.wire.protocol import CalibrationState, ReembedStage, request_body
from agentctx.wire.review import CaptureState


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpace:
    """The vectors of one model. `reason`: why they cannot be searched at present; null if they can."""

    space: int
    provider: str
    model: str
    dimension: int
    chunks: int
    """Chunks that should have a vector."""
    pending: int
    """Chunks without a vector yet."""
    buried: int
    """Chunks whose embedding was given up."""
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReembedCost:
    """The cost of all pending embeddings, in USD; null if the price is unknown."""

    tokens: int
    usd: float | None
    confirm_usd: float
    """Above this cost, embedding waits for approval; 0: never."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelComparison:
    """A comparison of both models on stored texts: shares from 0 to 1."""

    sampled: int
    self_retrieval: float
    """Share of the texts that were nearest to themselves in the new space."""
    overlap: float | None
    """Share of the ten nearest that both models agree on; null if the present model could not be asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReembedReply:
    """`stage` of the model in `beside`: off (there is none), held (waits for approval of the cost), building,
    comparing, ready (can be switched to), kept (answered before, and can be rolled back to).
    """

    stage: ReembedStage
    answering: ModelSpace | None
    beside: ModelSpace | None
    cost: ReembedCost | None = None
    """Null if no provider is used over HTTP, or nothing is pending."""
    comparison: ModelComparison | None = None
    advice: str | None = None
    """What to do next."""
    former: list[ModelSpace] = field(default_factory=list)
    """Further models whose vectors are kept until `retire`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BuriedJob:
    """An embedding that the daemon gave up on, with the reason."""

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


@request_body
class DrainRequest:
    """How long the answer may wait for the queue to become empty, in seconds."""

    timeout_s: float = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryReply:
    """How many buried jobs were put back into the queue."""

    retried: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderCost:
    """The cost of a provider over HTTP, in USD. Days are UTC days."""

    usd_per_million_tokens: float | None
    """Null if the price is unknown."""
    price_source: str
    """`published` with the month, or the setting that gives the price; empty if the price is unknown."""
    usd_per_day: float
    """The cap; 0: no cap."""
    confirm_usd: float
    """`agentctx ingest` asks before it spends more than this; 0: never."""
    tokens_today: int
    usd_today: float
    cap_reached: bool
    """Whether calls are refused until 00:00 UTC."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderStatus:
    """`state`: ok, starting, off, or degraded with `reason`.

    `cost` is null for providers that are not used over HTTP. `calibration` says whether relevance can use the
    model's similarities: unless it is `ready`, words decide what is injected. It is null without a model.
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
    """Sizes in bytes; `commits` since the start of the daemon. For a server, `path` is its address.

    `fault` says why nothing can be saved now; null while saves are accepted. Each of `warnings` is a sentence
    on how acknowledged saves could be lost; empty if there is no known risk.
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
    """Percentiles of the last few hundred events, in milliseconds."""

    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ActivityStatus:
    """Counts since the daemon started, and recent latencies; null if there were no events yet."""

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
    requests: dict[str, int] = field(default_factory=dict)
    """Provider calls by purpose: jobs (saved texts), questions, probe (which model answers), canary (is a
    text or the provider at fault), calibration of relevance, comparison of two models."""
    save: Latency | None
    ask: Latency | None
    embed: Latency | None
    """Latency of one provider call."""
    captures_refused: int = 0
    """Saves of agents' hooks that were refused."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProxyStatus:
    """The proxy's port on 127.0.0.1."""

    port: int
    token_file: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WithoutContext:
    """A model whose calls go through the proxy without context, because its vendor refused three that had it
    and took them without. The daemon forgets this when it restarts.
    """

    upstream: str
    model: str
    status: int
    """The status with which it refused them."""
    until: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BackupStatus:
    """The automatic backups. What has expired or was forgotten may be in them until `backups_until`."""

    backups: int
    backups_until: str | None
    """When newer backups will have replaced all of them; null: never, or there are none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusReply:
    """The daemon's state. CPU seconds are used by its process since it started."""

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
    """The part of `rss_bytes` that holds vectors in memory for search; 0: searches read the database."""
    word_memory_bytes: int
    """The same for words."""
    activity: ActivityStatus
    proxy: ProxyStatus | None = None
    """Null if there is no port: calls go through the proxy over the socket only."""
    reembed: ReembedReply | None = None
    """Null while only one model is configured."""
    without_context: list[WithoutContext] = field(default_factory=list)
    commit: str = ""
    """The commit it was built from, or `unknown`; empty if it is too old to say."""
    backups: BackupStatus | None = None
    captures: list[CaptureState] = field(default_factory=list)
    """What hooks captured or imports brought, by namespace and agent, and how much of it waits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessReply:
    """What the caller may do, by namespace or by prefix and `*`; for admins of the daemon, all grants too."""

    rights: dict[str, str]
    grants: list[dict[str, Any]]
    """As in the config."""
    quotas: dict[str, float]
    """Of each user, as in the config; admins have none."""
    used: dict[str, dict[str, int]]
    """By uid, of the caller and of users with grants: `stored_bytes`, and how many texts are `waiting`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageLink:
    """A link to the pages, for a browser on the daemon's machine. It works once, within a minute."""

    url: str
    port: int


@request_body
class BackupRequest:
    """Where to write the backup: an absolute path on the daemon's machine; null: its backup folder."""

    file: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BackupReply:
    """A finished backup, read back completely to verify it."""

    file: str
    made: str
    bytes: int
    schema: int
    """Version of the newest migration in the backup."""
    entries: int
    versions: int
    """Versions of all entries, including the live ones."""
    vectors: int
    removed: list[str]
    """Older backups that this one replaced."""
