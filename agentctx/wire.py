"""Request and response bodies of the HTTP API, shared by server and client.

Plain dataclasses from the standard library: the server validates them with pydantic (strictly: no
coercion, unknown fields are errors), the client reads them without importing it. Times are RFC 3339
strings in UTC with milliseconds, positions are code points of `content`, end exclusive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

API_PREFIX = "/v1"
IDEMPOTENCY_HEADER = "Idempotency-Key"
VERSION_HEADER = "X-Agentctx-Version"
REQUEST_ID_HEADER = "X-Request-Id"

DEFAULT_NAMESPACE = "default"
COLLECTIONS = ("knowledge", "observation", "reflection", "learning")

Origin = Literal["user", "agent", "tool", "document", "import", "capture"]
Trust = Literal["operator", "agent", "external"]
Order = Literal["distance", "relevance"]
EmbeddingState = Literal["pending", "done", "off"]

_STRICT: dict[str, Any] = {"extra": "forbid", "strict": True}


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveRequest:
    """One entry to save. docs/http-api.md says which fields a collection takes; others are errors."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    collection: str
    content: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    session: str | None = None
    agent: str | None = None
    origin: Origin = "agent"
    ttl: str | None = None
    """How long to keep it: a number and s, m, h, d or w (`30d`)."""
    if_version: int | None = None
    wait: Literal["embedded"] | None = None
    key: str | None = None
    category: str | None = None
    tags: list[str] | None = None
    source: str | None = None
    token_count: int | None = None
    source_start_index: int | None = None
    source_end_index: int | None = None
    generation: int | None = None
    trigger: str | None = None
    error_pattern: str | None = None
    diagnosis: str | None = None
    fix: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveManyRequest:
    """Many entries, saved independently: each gets its own result, in order."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    entries: list[SaveRequest]


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveResult:
    """The acknowledgement: what is in it is on disk."""

    id: str
    version: int
    changed: bool
    """False when the same content and attributes were there already."""
    redacted: list[str] = field(default_factory=list)
    """The kinds of secrets that were cut out before anything was stored."""
    embedding: EmbeddingState = "pending"


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorBody:
    """What is wrong, and what to do next."""

    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorReply:
    """Every answer that is not a success."""

    error: ErrorBody


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveManyReply:
    """A result or an error for each entry, in the order sent."""

    results: list[SaveResult | ErrorReply]


@dataclass(frozen=True, kw_only=True, slots=True)
class EditRequest:
    """Fields to change in an entry; absent fields stay. `if_version` guards against lost updates."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    content: str | None = None
    category: str | None = None
    tags: list[str] | None = None
    source: str | None = None
    trigger: str | None = None
    error_pattern: str | None = None
    diagnosis: str | None = None
    fix: str | None = None
    ttl: str | None = None
    if_version: int | None = None
    wait: Literal["embedded"] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryView:
    """A saved entry, one version of it."""

    id: str
    version: int
    live: bool
    namespace: str
    collection: str
    key: str | None
    session: str | None
    agent: str | None
    content: str
    attributes: dict[str, Any]
    origin: Origin
    trust: Trust
    principal: int
    created: str
    updated: str
    expires: str | None
    embedding: EmbeddingState


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryPage:
    """Newest first. `next` is the cursor of the following page, null on the last."""

    entries: list[EntryView]
    next: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionList:
    """All versions of one entry, newest first."""

    versions: list[EntryView]


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgetReply:
    """The entry, its versions, chunks, words, vectors and jobs are gone."""

    id: str
    versions: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeRequest:
    """Whether applying a learning worked."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    success: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchRequest:
    """A question. Filters are exact; `since` and `until` are RFC 3339 times or ages like `7d`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    query: str
    namespace: str = DEFAULT_NAMESPACE
    collections: list[str] | None = None
    session: str | None = None
    agent: str | None = None
    category: str | None = None
    tags: list[str] | None = None
    since: str | None = None
    until: str | None = None
    limit: int | None = None
    order: Order = "relevance"
    max_distance: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextRequest(SearchRequest):
    """A question whose answer is wanted as the ready-made block."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    budget_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """One hit: a chunk of an entry. `distance` is cosine (0 to 2), null when it has no vector yet."""

    collection: str
    id: str
    source_id: str
    """The entry's key where it has one, else its id."""
    version: int
    content: str
    distance: float | None
    score: float
    start: int
    end: int
    session: str | None
    agent: str | None
    origin: Origin
    trust: Trust
    created: str
    updated: str
    attributes: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchReply:
    """The passages, best first in the order asked for; `degraded` says why meaning was left out."""

    results: list[Passage]
    degraded: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextReply:
    """The block as an LLM call would get it; empty when nothing is relevant."""

    block: str
    tokens: int
    results: list[Passage]
    degraded: str | None


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
