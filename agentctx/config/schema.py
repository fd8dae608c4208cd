"""Every setting, its default and its meaning. `config/agentctx.toml` shows the same; a test compares them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from agentctx.config.access import AccessSettings
from agentctx.config.quotas import QuotaSettings
from agentctx.config.section import Section
from agentctx.errors import InvalidInput
from agentctx.times import parse_duration
from agentctx.wire import COLLECTIONS

PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ServerSettings(Section):
    """The socket and what a connection may cost."""

    socket_mode: Literal["0600", "0660"] = Field("0600", description="mode of the socket file")
    socket_group: str = Field("", description="group that owns the socket; needs socket_mode 0660")
    max_body_bytes: PositiveInt = Field(1_048_576, description="largest request body")
    max_proxy_body_bytes: PositiveInt = Field(
        33_554_432, description="largest request body of an LLM call through the proxy"
    )
    max_header_bytes: PositiveInt = Field(16_384, description="largest request head")
    header_timeout_s: PositiveFloat = Field(5.0, description="a request head must be complete by then")
    body_timeout_s: PositiveFloat = Field(8.0, description="a request body must be complete by then")
    keep_alive_s: PositiveFloat = Field(75.0, description="how long an idle connection is kept")
    shutdown_timeout_s: PositiveFloat = Field(
        4.0, description="how long a stop waits for requests and the queue"
    )


class LimitSettings(Section):
    """What one entry may hold."""

    max_content_chars: PositiveInt = Field(262_144, description="longest content of an entry, in code points")
    max_tags: PositiveInt = Field(32, description="most tags of an entry")
    max_entries_per_request: PositiveInt = Field(1_000, description="most entries in one save request")
    max_query_chars: PositiveInt = Field(20_000, description="longest question, in code points")
    max_results: PositiveInt = Field(100, description="most results of one question")
    max_present_chars: PositiveInt = Field(
        300_000, description="most text of a conversation that one question compares with, in code points"
    )


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


class EmbeddingLimitSettings(Section):
    """What a provider over HTTP may be asked and may cost."""

    requests_per_minute: Annotated[int, Field(ge=0)] = Field(
        0, description="most requests a minute, a fifth of them for questions; 0 is no limit"
    )
    tokens_per_minute: Annotated[int, Field(ge=0)] = Field(
        0, description="most tokens a minute, a fifth of them for questions; 0 is no limit"
    )
    usd_per_day: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="embedding pauses until 00:00 UTC when a day has cost that much; 0 is no cap"
    )
    usd_per_million_tokens: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="what the model costs; 0 is its published price, if that is known"
    )
    confirm_usd: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        1.0, description="agentctx ingest and reembed ask before it costs more than that; 0 never asks"
    )


class ModelSettings(Section):
    """An embedding model, and how it is asked."""

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
    input_types: bool = Field(
        False,
        description="tell cohere, voyage or google what is a question and what is a saved text, as they "
        "advise; changes every vector",
    )
    use_environment_proxies: bool = Field(
        False, description="reach the provider through the proxies that HTTPS_PROXY and the like name"
    )
    threads: PositiveInt = Field(1, description="threads of one embedding call of the embedded model")
    limits: EmbeddingLimitSettings = EmbeddingLimitSettings()


class NextModelSettings(ModelSettings):
    """The model to move to. It is filled beside the one that answers: see agentctx reembed."""

    provider: str = Field(
        "none", description="as embedding.provider, and so are the keys below; none is no other model"
    )
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.5, description="most of the time that embedding with it may take while another model answers"
    )
    switch: Literal["manual", "auto"] = Field(
        "manual",
        description="manual (agentctx reembed --switch) or auto (as soon as everything is embedded, if what "
        "is stored finds itself)",
    )


class EmbeddingSettings(ModelSettings):
    """Which model turns texts into vectors."""

    rag: RagSettings = RagSettings()
    queue: QueueSettings = QueueSettings()
    next: NextModelSettings = NextModelSettings()

    def of_next(self) -> EmbeddingSettings | None:
        """These settings with the model of `next` in its place; None when there is none."""
        if self.next.provider == "none":
            return None
        model = {name: getattr(self.next, name) for name in ModelSettings.model_fields}
        return self.model_copy(update={**model, "next": NextModelSettings()})

    @model_validator(mode="after")
    def _moves_from_a_model(self) -> Self:
        if self.provider == "none" and self.next.provider != "none":
            raise ValueError("embedding.next.provider is set, but embedding.provider is none: set that one")
        return self


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


class VectorSettings(Section):
    """Where the vectors are kept. Another store embeds everything again."""

    store: Literal["sqlite-vec", "chroma"] = Field(
        "sqlite-vec",
        description="sqlite-vec (in the database) or chroma (needs the extra agentctx-daemon[chroma])",
    )
    url: str = Field("", description="address of a Chroma server, like http://localhost:8000")
    path: Path | None = Field(
        None, description="folder of Chroma without a server; default: chroma in the data folder"
    )
    token: SecretStr | None = Field(None, description="token of the Chroma server")
    timeout_s: PositiveFloat = Field(
        10.0, description="a request to the Chroma server that takes longer has failed"
    )
    memory_mb: Annotated[int, Field(ge=0)] = Field(
        128,
        description="most memory for a copy of the vectors, which makes searches faster; 0, or too little "
        "for it, searches the database; sqlite-vec only",
    )


class InjectionSettings(Section):
    """What is put into LLM calls, and what is kept about it."""

    deadline_ms: PositiveInt = Field(
        300, description="an LLM call waits no longer for its context than this many milliseconds"
    )
    max_distance: Literal["auto"] | Annotated[float, Field(ge=0, le=2)] = Field(
        "auto",
        description="inject nothing farther than this cosine distance; 0 injects all; auto is what was "
        "measured for the model, else embedding.rag.max_distance",
    )
    max_share_external: Annotated[float, Field(gt=0, le=1)] = Field(
        0.5, description="external entries fill at most this share of the passages while there are others"
    )
    max_share_source: Annotated[float, Field(gt=0, le=1)] = Field(
        0.5,
        description="so do those of one file, one agent in one session, or one other user; at least one "
        "passage",
    )
    receipts_days: PositiveInt = Field(7, description="how long the receipt of an injection is kept")
    receipts_max: PositiveInt = Field(10_000, description="most receipts that are kept")
    store_prompts: bool = Field(
        False, description="keep the question in the receipt, not only a fingerprint of it"
    )


class ProxySettings(Section):
    """LLM calls passed on with their context."""

    position: Literal["tail", "system"] = Field(
        "tail",
        description="tail (end of the last user turn, keeps the vendor's prompt cache) or system (end of the "
        "system prompt, only what agents and operators vouch for)",
    )
    openai_url: str = Field(
        "https://api.openai.com", description="where /proxy/openai leads; empty is nowhere"
    )
    anthropic_url: str = Field(
        "https://api.anthropic.com", description="where /proxy/anthropic leads; empty is nowhere"
    )
    gemini_url: str = Field(
        "https://generativelanguage.googleapis.com", description="where /proxy/gemini leads; empty is nowhere"
    )
    ollama_url: str = Field(
        "http://127.0.0.1:11434", description="where /proxy/ollama leads; empty is nowhere"
    )
    openai_key: SecretStr | None = Field(None, description="sent to OpenAI for calls that bring no key")
    anthropic_key: SecretStr | None = Field(None, description="sent to Anthropic for calls that bring no key")
    gemini_key: SecretStr | None = Field(None, description="sent to Gemini for calls that bring no key")
    connect_timeout_s: PositiveFloat = Field(10.0, description="how long a connection to a vendor may take")
    read_timeout_s: PositiveFloat = Field(600.0, description="how long a vendor may be silent")
    use_environment_proxies: bool = Field(
        False, description="reach vendors through the proxies that HTTPS_PROXY and the like name"
    )
    tcp_port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        0,
        description="also listen on this port of 127.0.0.1, for programs that cannot use the socket; "
        "0 is off",
    )
    tcp_token_file: Path | None = Field(
        None,
        description="file of the token for the port, made if missing; default: proxy-token in the data "
        "folder",
    )
    tcp_namespaces: tuple[str, ...] = Field(
        ("default",), min_length=1, description="namespaces the token is good for; the first is the usual one"
    )
    capture: bool = Field(False, description="save what models answer as observations of trust external")

    @field_validator("openai_url", "anthropic_url", "gemini_url", "ollama_url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        if url and not url.startswith(("http://", "https://")):
            raise ValueError("an address begins with http:// or https://")
        return url.rstrip("/")


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


class BackupSettings(Section):
    """Backups that the daemon makes by itself, each verified after it was written."""

    interval_h: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="hours from one backup to the next; 0 makes none"
    )
    folder: Path | None = Field(None, description="where they go; default: backups in the data folder")
    keep: PositiveInt = Field(7, description="how many are kept; the last verified one always is")


class AuditSettings(Section):
    """The audit trail: who saved, forgot and changed what. What was forgotten is always recorded."""

    enabled: bool = Field(
        True, description="record saves, reads by other users, configurations and operators' actions"
    )
    reads: bool = Field(True, description="record what users other than the daemon's own and root have read")
    days: PositiveInt = Field(90, description="how long a row is kept")
    max_rows: PositiveInt = Field(200_000, description="most rows that are kept")


class RedactionSettings(Section):
    """Secrets in what is saved and asked."""

    mode: Literal["redact", "reject", "off"] = Field(
        "redact",
        description="redact (cut them out and say so), reject (save nothing that holds one) or off",
    )
    rules_file: Path | None = Field(
        None, description="rules of your own, beside those of agentctx; see docs/how-to/secrets.md"
    )
    disabled: tuple[str, ...] = Field((), description="ids of rules that are not used")


class ScreeningSettings(Section):
    """Text shaped like instructions to an LLM, in what is saved."""

    mode: Literal["flag", "quarantine", "off"] = Field(
        "flag",
        description="flag (say so, and keep it out of system prompts), quarantine (keep it out of every "
        "answer until it is released) or off",
    )


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
    access: AccessSettings = AccessSettings()
    quotas: QuotaSettings = QuotaSettings()
    limits: LimitSettings = LimitSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    rerank: RerankSettings = RerankSettings()
    vectors: VectorSettings = VectorSettings()
    injection: InjectionSettings = InjectionSettings()
    proxy: ProxySettings = ProxySettings()
    storage: StorageSettings = StorageSettings()
    backup: BackupSettings = BackupSettings()
    audit: AuditSettings = AuditSettings()
    redaction: RedactionSettings = RedactionSettings()
    screening: ScreeningSettings = ScreeningSettings()
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
