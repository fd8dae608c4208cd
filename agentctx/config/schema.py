"""All settings, their defaults and meanings. `config/agentctx.toml` repeats them; a test compares the two."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from agentctx.config.access import AccessSettings, QuotaSettings
from agentctx.config.embedding import EmbeddingSettings, RerankSettings
from agentctx.config.section import PositiveFloat, PositiveInt, Section
from agentctx.errors import InvalidInput
from agentctx.times import parse_duration
from agentctx.wire import COLLECTIONS


class ServerSettings(Section):
    """The socket, and the limits on a connection."""

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
    """Limits on entries, save requests and searches."""

    max_content_chars: PositiveInt = Field(262_144, description="longest content of an entry, in code points")
    max_tags: PositiveInt = Field(32, description="most tags of an entry")
    max_entries_per_request: PositiveInt = Field(1_000, description="most entries in one save request")
    max_query_chars: PositiveInt = Field(20_000, description="longest question, in code points")
    max_results: PositiveInt = Field(100, description="most results of one question")
    max_present_chars: PositiveInt = Field(
        300_000, description="most text of a conversation that one question compares with, in code points"
    )


class VectorSettings(Section):
    """How vectors are searched."""

    memory_mb: Annotated[int, Field(ge=0)] = Field(
        512,
        description="most memory for a copy of the vectors, which makes searches faster; 0, or too little "
        "for it, searches the database",
    )


class InjectionSettings(Section):
    """What is injected into LLM calls, and what is recorded about it."""

    deadline_ms: PositiveInt = Field(
        300, description="an LLM call waits no longer for its context than this many milliseconds"
    )
    eagerness: Literal["careful", "normal", "eager"] = Field(
        "normal",
        description="how readily a memory is injected: careful keeps more out, eager lets more in "
        "(docs/relevance.md has the curve)",
    )
    calibrate: bool = Field(
        True,
        description="embed some 700 short texts of the package once to understand the similarities of "
        "a model other than the embedded one; without, words alone decide what is injected",
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


TOKEN_FILE = "proxy-token"  # noqa: S105 - the name of a file


class ProxySettings(Section):
    """The proxy, which forwards LLM calls with context added."""

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
            raise ValueError("a URL must begin with http:// or https://")
        return url.rstrip("/")

    def token_path(self, data_dir: Path) -> Path:
        """Return the path of the TCP port's token."""
        return self.tcp_token_file or data_dir / TOKEN_FILE


class CollectionSettings(Section):
    """A collection declared in the config."""

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
    """The database: a SQLite file in the data folder, or a PostgreSQL server that several daemons share."""

    url: str = Field(
        "",
        description="of a PostgreSQL database, postgresql://USER@HOST/NAME, without the password; empty: a "
        "SQLite file in the data folder",
    )
    password: SecretStr | None = Field(
        None, description="password for PostgreSQL; better as a systemd credential or in password_file"
    )
    password_file: Path | None = Field(
        None, description="file whose first line is the password for PostgreSQL"
    )
    pooler: Literal["none", "transaction"] = Field(
        "none",
        description="transaction: storage.url leads to a pooler in transaction mode, such as pgbouncer",
    )
    readers: PositiveInt = Field(3, description="read-only connections")
    idempotency_hours: PositiveInt = Field(24, description="how long an Idempotency-Key is remembered")
    sweep_interval_s: PositiveFloat = Field(60.0, description="how often expired entries are removed")
    reserve_mb: Annotated[int, Field(ge=0)] = Field(
        16, description="MiB of the disk kept for forgetting when it is full; 0 keeps none"
    )

    @field_validator("url")
    @classmethod
    def _is_a_server(cls, url: str) -> str:
        parts = urlsplit(url)
        if url and parts.scheme not in {"postgresql", "postgres"}:
            raise ValueError("must begin with postgresql://, or be empty for SQLite")
        if parts.password or "password" in dict(parse_qsl(parts.query)):
            raise ValueError("must not hold a password: put it into a file that storage.password_file names")
        return url


def displayed_url(url: str) -> str:
    """Return a server's address for display: without parameters, except the folder of its socket."""
    parts = urlsplit(url)
    host = dict(parse_qsl(parts.query)).get("host")
    query = urlencode({"host": host}, safe="/") if host else ""
    return parts._replace(query=query, fragment="").geturl()


class BackupSettings(Section):
    """Automatic backups by the daemon, each verified after it is written."""

    interval_h: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="hours from one backup to the next; 0 makes none"
    )
    folder: Path | None = Field(None, description="where they go; default: backups in the data folder")
    keep: PositiveInt = Field(7, description="how many are kept; the last verified one always is")


class AuditSettings(Section):
    """The audit trail: who saved, forgot and changed what. Forgets are always recorded."""

    enabled: bool = Field(
        True, description="record saves, reads by other users, configurations and operators' actions"
    )
    reads: bool = Field(True, description="record what users other than the daemon's own and root have read")
    days: PositiveInt = Field(90, description="how long a row is kept")
    max_rows: PositiveInt = Field(200_000, description="most rows that are kept")


class RedactionSettings(Section):
    """The handling of secrets in saved texts and in questions."""

    mode: Literal["redact", "reject", "off"] = Field(
        "redact",
        description="redact (cut them out and say so), reject (save nothing that holds one) or off",
    )
    rules_file: Path | None = Field(
        None, description="additional rules of your own; see docs/how-to/secrets.md"
    )
    disabled: tuple[str, ...] = Field((), description="ids of rules that are not used")


class ScreeningSettings(Section):
    """The handling of saved text that looks like instructions to an LLM."""

    mode: Literal["flag", "quarantine", "off"] = Field(
        "flag",
        description="flag (say so, and keep it out of system prompts), quarantine (keep it out of every "
        "answer until it is released) or off",
    )


class LogSettings(Section):
    """The level and format of the log."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least level that is logged"
    )
    format: Literal["auto", "json", "console"] = Field(
        "auto", description="auto is console on a terminal, else json"
    )


class TelemetrySettings(Section):
    """Exports to monitoring tools. Metrics are always available at GET /metrics."""

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
            raise ValueError("an endpoint must begin with http:// or https://")
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
                raise ValueError(
                    f"embedding.rag.collections: unknown collection {name!r}; declare it in [collections]"
                )
        return self

    @field_validator("collections")
    @classmethod
    def _names_are_free(cls, collections: dict[str, CollectionSettings]) -> dict[str, CollectionSettings]:
        for name in collections:
            if name in COLLECTIONS:
                raise ValueError(f"{name!r} is a built-in collection")
            if not (
                name.isascii() and name.replace("_", "").isalnum() and name.islower() and len(name) <= 32
            ):
                raise ValueError(f"{name!r}: use 1 to 32 of a-z, 0-9 and _")
        return collections
