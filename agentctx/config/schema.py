"""Every setting, its default and its meaning. `config/agentctx.toml` shows the same; a test compares them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from agentctx.errors import InvalidInput
from agentctx.times import parse_duration
from agentctx.wire import COLLECTIONS

PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Section(BaseModel):
    """A table of the config: frozen, unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSettings(Section):
    """The socket and what a connection may cost."""

    socket_mode: Literal["0600", "0660"] = Field("0600", description="mode of the socket file")
    socket_group: str = Field("", description="group that owns the socket; needs socket_mode 0660")
    max_body_bytes: PositiveInt = Field(1_048_576, description="largest request body")
    max_header_bytes: PositiveInt = Field(16_384, description="largest request head")
    header_timeout_s: PositiveFloat = Field(5.0, description="a request head must be complete by then")
    body_timeout_s: PositiveFloat = Field(8.0, description="a request body must be complete by then")
    keep_alive_s: PositiveFloat = Field(75.0, description="how long an idle connection is kept")
    shutdown_timeout_s: PositiveFloat = Field(
        5.0, description="how long a stop waits for requests and the queue"
    )


class LimitSettings(Section):
    """What one entry may hold."""

    max_content_chars: PositiveInt = Field(262_144, description="longest content of an entry, in code points")
    max_tags: PositiveInt = Field(32, description="most tags of an entry")
    max_entries_per_request: PositiveInt = Field(1_000, description="most entries in one save request")
    max_query_chars: PositiveInt = Field(20_000, description="longest question, in code points")
    max_results: PositiveInt = Field(100, description="most results of one question")


class RagSettings(Section):
    """How questions are answered."""

    enabled: bool = Field(True, description="give context to LLM calls at all")
    max_results: PositiveInt = Field(5, description="passages of an answer when the question does not say")
    collections: tuple[str, ...] = Field(
        COLLECTIONS, description="collections searched when the question does not say"
    )
    max_distance: Annotated[float, Field(ge=0, le=2)] = Field(
        0.0, description="drop passages farther than this cosine distance; 0 keeps all"
    )
    max_per_entry: PositiveInt = Field(2, description="most passages of one entry in an answer")
    budget_tokens: PositiveInt = Field(1_500, description="most tokens of a context block")
    deadline_s: PositiveFloat = Field(2.0, description="after that a question is answered by words alone")
    dense_weight: Annotated[float, Field(ge=0, le=1)] = Field(
        0.5, description="share of meaning in the fused score"
    )
    cache_entries: Annotated[int, Field(ge=0)] = Field(512, description="query vectors kept in memory")


class QueueSettings(Section):
    """How saved texts are embedded in the background."""

    batch_size: PositiveInt = Field(32, description="texts of one provider call")
    batch_wait_ms: PositiveInt = Field(50, description="a batch is sent this long after its first text")
    capacity: PositiveInt = Field(1_024, description="jobs held in memory; the others wait in the table")
    call_timeout_s: PositiveFloat = Field(60.0, description="a provider call that takes longer has failed")
    backoff_base_s: PositiveFloat = Field(1.0, description="first wait after a failed call")
    backoff_max_s: PositiveFloat = Field(300.0, description="longest wait between tries")
    breaker_failures: PositiveInt = Field(5, description="failed calls in a row that open the breaker")
    lease_s: PositiveFloat = Field(120.0, description="a job taken from the table is taken again after that")


class EmbeddingSettings(Section):
    """Which model turns texts into vectors."""

    provider: str = Field(
        "embedded",
        description="embedded (in process, no network, no key), openai, google, ollama (or local), "
        "openai-compatible, cohere, voyage, fake (for tests) or none (words only)",
    )
    model: str = Field(
        "", description="model name or, for embedded, a path to an ONNX file with its tokenizer.json"
    )
    dimensions: Annotated[int, Field(ge=0)] = Field(
        0, description="length of the vectors; 0 is the model's own"
    )
    base_url: str = Field("", description="address of the provider; empty is the provider's own")
    api_key: SecretStr | None = Field(None, description="key of the provider; better as a systemd credential")
    query_prefix: str = Field("", description="put before every question; providers over HTTP only")
    document_prefix: str = Field("", description="put before every saved text; providers over HTTP only")
    use_environment_proxies: bool = Field(
        False, description="reach the provider through the proxies that HTTPS_PROXY and the like name"
    )
    threads: PositiveInt = Field(1, description="threads of one embedding call of the embedded model")
    rag: RagSettings = RagSettings()
    queue: QueueSettings = QueueSettings()


class RerankSettings(Section):
    """Whether a second model reads what was found and puts it into a better order."""

    provider: str = Field(
        "none",
        description="none, cohere (texts leave this machine; needs the extra agentctx-daemon[cohere]) or "
        "cross-encoder",
    )
    model: str = Field(
        "",
        description="model name or, for cross-encoder, a path to an ONNX file with its tokenizer.json",
    )
    api_key: SecretStr | None = Field(None, description="key of the reranker; better as a systemd credential")
    base_url: str = Field("", description="address of the reranker; empty is the provider's own")
    candidates: PositiveInt = Field(20, description="passages the reranker reads for one question")
    deadline_s: PositiveFloat = Field(1.0, description="after that an answer keeps the order it has")


class CollectionSettings(Section):
    """A collection of one's own."""

    description: str = Field("", description="what it holds")
    ttl: str = Field("", description="how long entries are kept unless the save says otherwise, like 30d")

    @field_validator("ttl")
    @classmethod
    def _is_a_duration(cls, ttl: str) -> str:
        try:
            if ttl:
                parse_duration(ttl)
        except InvalidInput as error:
            raise ValueError(error.message) from None
        return ttl


class StorageSettings(Section):
    """The database."""

    readers: PositiveInt = Field(3, description="read-only connections")
    idempotency_hours: PositiveInt = Field(24, description="how long an Idempotency-Key is remembered")
    sweep_interval_s: PositiveFloat = Field(60.0, description="how often expired entries are removed")


class LogSettings(Section):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least level that is logged"
    )
    format: Literal["auto", "json", "console"] = Field(
        "auto", description="auto is console on a terminal, else json"
    )


class TelemetrySettings(Section):
    """What is told to tools that watch. Metrics are always there, at GET /metrics."""

    traces: Literal["off", "otlp"] = Field(
        "off", description="otlp sends spans over HTTP; it needs the extra agentctx-daemon[otel]"
    )
    endpoint: str = Field(
        "",
        description="where spans go, like http://localhost:4318; empty is what OTEL_… variables say",
    )

    @field_validator("endpoint")
    @classmethod
    def _is_an_address(cls, endpoint: str) -> str:
        if endpoint and not endpoint.startswith(("http://", "https://")):
            raise ValueError("an endpoint begins with http:// or https://")
        return endpoint


class Settings(Section):
    """The whole configuration."""

    data_dir: Path | None = Field(None, description="folder of the database; default: the XDG data home")
    socket: Path | None = Field(None, description="path of the Unix socket; default: the runtime folder")
    server: ServerSettings = ServerSettings()
    limits: LimitSettings = LimitSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    rerank: RerankSettings = RerankSettings()
    storage: StorageSettings = StorageSettings()
    log: LogSettings = LogSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    collections: dict[str, CollectionSettings] = Field({}, description="collections of one's own")

    @model_validator(mode="after")
    def _searched_collections_exist(self) -> Settings:
        for name in self.embedding.rag.collections:
            if name not in (*COLLECTIONS, *self.collections):
                raise ValueError(f"embedding.rag.collections: {name!r} is neither built in nor declared")
        return self

    @field_validator("collections")
    @classmethod
    def _names_are_free(cls, collections: dict[str, CollectionSettings]) -> dict[str, CollectionSettings]:
        for name in collections:
            if name in COLLECTIONS:
                raise ValueError(f"{name!r} is built in")
            if not (
                name.isascii() and name.replace("_", "").isalnum() and name.islower() and len(name) <= 32
            ):
                raise ValueError(f"{name!r}: use 1 to 32 of a-z, 0-9 and _")
        return collections
