"""All settings, their defaults and meanings. `config/agentctx.toml` repeats them; a test compares the two."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from agentctx.config.access import AccessSettings, QuotaSettings
from agentctx.config.embedding import EmbeddingSettings, RerankSettings
from agentctx.config.section import PositiveFloat, PositiveInt, Section
from agentctx.errors import InvalidInput
from agentctx.names import NAMESPACE_RULE, is_namespace
from agentctx.times import parse_duration
from agentctx.wire import COLLECTIONS

MAX_COLLECTIONS = 100
"""How many collections may be declared; a filter can name them all."""


class ServerSettings(Section):
    """The socket, and the limits on a connection."""

    socket_mode: Literal["0600", "0660"] = Field("0600", description="mode of the socket file")
    socket_group: str = Field("", description="group that owns the socket; needs socket_mode 0660")
    max_body_bytes: PositiveInt = Field(1_048_576, description="largest request body, in bytes")
    max_proxy_body_bytes: PositiveInt = Field(
        33_554_432, description="largest request body of an LLM call through the proxy, in bytes"
    )
    max_header_bytes: PositiveInt = Field(16_384, description="largest request head, in bytes")
    header_timeout_s: PositiveFloat = Field(
        5.0, description="seconds within which a request head must be complete"
    )
    body_timeout_s: PositiveFloat = Field(
        8.0, description="seconds within which a request body must be complete"
    )
    keep_alive_s: PositiveFloat = Field(75.0, description="seconds after which an idle connection is closed")
    shutdown_timeout_s: PositiveFloat = Field(
        4.0, description="seconds that a stop waits for requests and the queue"
    )


class LimitSettings(Section):
    """Limits on entries, save requests and searches."""

    max_content_chars: PositiveInt = Field(262_144, description="longest content of an entry, in code points")
    max_tags: PositiveInt = Field(32, description="maximum number of tags per entry")
    max_versions: Annotated[int, Field(ge=2)] = Field(
        100, description="versions kept of an entry: the first one and the newest"
    )
    max_entries_per_request: PositiveInt = Field(
        1_000, description="maximum number of entries in one save request"
    )
    max_query_chars: PositiveInt = Field(20_000, description="longest question, in code points")
    max_results: PositiveInt = Field(100, description="maximum number of results for one question")
    max_present_chars: PositiveInt = Field(
        300_000, description="longest conversation that a question is compared with, in code points"
    )


class VectorSettings(Section):
    """How vectors are searched."""

    memory_mb: Annotated[int, Field(ge=0)] = Field(
        512,
        description="MiB of memory for a copy of the vectors, which makes searches faster; 0, or too few "
        "for all vectors, searches the database",
    )


class WordSettings(Section):
    """How words are searched."""

    memory_mb: Annotated[int, Field(ge=0)] = Field(
        512,
        description="MiB of memory for a copy of the index of words, which makes searches faster; 0, or too "
        "few for all words, searches the database",
    )


class InjectionSettings(Section):
    """What is injected into LLM calls, and what is recorded about it."""

    deadline_ms: PositiveInt = Field(300, description="milliseconds that an LLM call waits for its context")
    eagerness: Literal["careful", "normal", "eager"] = Field(
        "normal",
        description="how readily memories are injected: careful injects fewer, eager injects more "
        "(docs/relevance.md has the curve)",
    )
    calibrate: bool = Field(
        True,
        description="embed about 700 short texts of the package once, to calibrate the similarities of a "
        "model other than the embedded one; otherwise, words alone decide what is injected",
    )
    max_share_external: Annotated[float, Field(gt=0, le=1)] = Field(
        0.5, description="maximum share of the passages from external entries, if there are other entries"
    )
    max_share_source: Annotated[float, Field(gt=0, le=1)] = Field(
        0.5,
        description="maximum share of the passages from one file, one agent in one session, or one other "
        "user; one passage is always allowed",
    )
    receipts_days: PositiveInt = Field(7, description="days for which the receipt of an injection is kept")
    receipts_max: PositiveInt = Field(10_000, description="maximum number of receipts kept")
    store_prompts: bool = Field(
        False, description="store the question in the receipt, not only its fingerprint"
    )


TOKEN_FILE = "proxy-token"  # noqa: S105 - the name of a file


def _checked_namespace(name: str) -> str:
    if not is_namespace(name):
        raise ValueError(f"{name!r} is not a namespace. {NAMESPACE_RULE}")
    return name


class ProxySettings(Section):
    """The proxy, which forwards LLM calls with context added."""

    position: Literal["tail", "system"] = Field(
        "tail",
        description="tail (end of the last user turn, keeps the vendor's prompt cache) or system (end of "
        "the system prompt, only content that agents or operators vouch for)",
    )
    openai_url: str = Field(
        "https://api.openai.com", description="base URL to which /proxy/openai forwards; empty: off"
    )
    anthropic_url: str = Field(
        "https://api.anthropic.com", description="base URL to which /proxy/anthropic forwards; empty: off"
    )
    gemini_url: str = Field(
        "https://generativelanguage.googleapis.com",
        description="base URL to which /proxy/gemini forwards; empty: off",
    )
    ollama_url: str = Field(
        "http://127.0.0.1:11434", description="base URL to which /proxy/ollama forwards; empty: off"
    )
    openai_key: SecretStr | None = Field(None, description="key sent to OpenAI for calls without one")
    anthropic_key: SecretStr | None = Field(None, description="key sent to Anthropic for calls without one")
    gemini_key: SecretStr | None = Field(None, description="key sent to Gemini for calls without one")
    connect_timeout_s: PositiveFloat = Field(
        10.0, description="seconds within which a connection to a vendor must be established"
    )
    read_timeout_s: PositiveFloat = Field(600.0, description="seconds for which a vendor may send nothing")
    use_environment_proxies: bool = Field(
        False, description="reach vendors through the proxies set by HTTPS_PROXY and similar variables"
    )
    tcp_port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        0,
        description="also listen on this port of 127.0.0.1, for programs that cannot use the socket; 0: off",
    )
    tcp_token_file: Path | None = Field(
        None,
        description="file with the token for the port, created if missing; default: proxy-token in the "
        "data folder",
    )
    tcp_namespaces: tuple[Annotated[str, AfterValidator(_checked_namespace)], ...] = Field(
        ("default",),
        min_length=1,
        description="namespaces that the token gives access to; the first is the default",
    )
    capture: bool = Field(False, description="save the answers of models as observations with trust external")

    @field_validator("openai_url", "anthropic_url", "gemini_url", "ollama_url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if url and not url.startswith(("http://", "https://")):
            raise ValueError("a URL must begin with http:// or https://")
        return url.rstrip("/")

    def token_path(self, data_dir: Path) -> Path:
        """Return the path of the TCP port's token."""
        return self.tcp_token_file or data_dir / TOKEN_FILE


def _checked_duration(text: str) -> str:
    try:
        if text:
            parse_duration(text)
    except InvalidInput as error:
        raise ValueError(error.message) from None
    return text


Duration = Annotated[str, AfterValidator(_checked_duration)]
"""A number and s, m, h, d or w; empty: none."""


class CollectionSettings(Section):
    """A collection declared in the config."""

    description: str = Field("", description="what the collection holds")
    ttl: Duration = Field("", description="how long entries are kept unless a save says otherwise, like 30d")


class IngestSettings(Section):
    """Entries that come from files."""

    withdrawn_ttl: Duration = Field(
        "30d",
        description="how long an entry is kept whose file is gone or says something else; empty: for ever",
    )


class ReviewSettings(Section):
    """What was captured or imported and waits for a review."""

    ttl: Duration = Field(
        "30d", description="how long an entry waits before it is erased; empty: until somebody decides"
    )


class StorageSettings(Section):
    """The database: a SQLite file in the data folder, or a PostgreSQL server that several daemons share."""

    url: str = Field(
        "",
        description="URL of a PostgreSQL database, postgresql://USER@HOST/NAME, without the password; "
        "needs the package agentctx-postgresql; empty: a SQLite file in the data folder",
    )
    password: SecretStr | None = Field(
        None, description="password for PostgreSQL; better as a systemd credential or in password_file"
    )
    password_file: Path | None = Field(
        None, description="file whose first line is the password for PostgreSQL"
    )
    pooler: Literal["none", "transaction"] = Field(
        "none",
        description="transaction: storage.url is that of a pooler in transaction mode, such as pgbouncer",
    )
    readers: PositiveInt = Field(3, description="number of read-only connections")
    idempotency_hours: PositiveInt = Field(24, description="hours for which an Idempotency-Key is remembered")
    sweep_interval_s: PositiveFloat = Field(60.0, description="seconds between removals of expired entries")

    @field_validator("url")
    @classmethod
    def _check_server_url(cls, url: str) -> str:
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
    """Automatic backups by the daemon, each verified after it is written; none of a database on a server.

    A backup is made only if twice the database's size is free on the disk of its folder.
    """

    interval_h: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        24.0, description="hours between backups; 0: no backups"
    )
    folder: Path | None = Field(
        None, description="folder for the backups; default: backups in the data folder"
    )
    keep: PositiveInt = Field(2, description="number of backups kept")


class AuditSettings(Section):
    """The audit trail: who saved, forgot and changed what. Forgets are always recorded."""

    enabled: bool = Field(
        True, description="record saves, reads by other users, configurations and operators' actions"
    )
    reads: bool = Field(True, description="record what users other than the daemon's own and root have read")
    days: PositiveInt = Field(90, description="days for which a row is kept")
    max_rows: PositiveInt = Field(200_000, description="maximum number of rows kept")


class RedactionSettings(Section):
    """The handling of secrets in saved texts and in questions."""

    mode: Literal["redact", "reject", "off"] = Field(
        "redact",
        description="redact (replace secrets with a mark and report them), reject (refuse to save entries "
        "that contain one) or off",
    )
    rules_file: Path | None = Field(
        None, description="file with additional rules of your own; see docs/how-to/secrets.md"
    )
    disabled: tuple[str, ...] = Field((), description="ids of rules to disable")


class ScreeningSettings(Section):
    """The handling of saved text that looks like instructions to an LLM."""

    mode: Literal["flag", "quarantine", "off"] = Field(
        "flag",
        description="flag (report it, and keep it out of system prompts), quarantine (keep it out of "
        "every answer until it is released) or off",
    )


class LogSettings(Section):
    """The level and format of the log."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="lowest level that is logged"
    )
    format: Literal["auto", "json", "console"] = Field(
        "auto", description="auto: console on a terminal, otherwise json"
    )


class TelemetrySettings(Section):
    """Exports to monitoring tools. Metrics are always available at GET /metrics."""

    traces: Literal["off", "otlp"] = Field(
        "off", description="otlp sends spans over HTTP and needs the extra agentctx-daemon[otel]"
    )
    endpoint: str = Field(
        "",
        description="URL to which spans are sent, like http://localhost:4318; empty: set by OTEL_… variables",
    )

    @field_validator("endpoint")
    @classmethod
    def _check_url(cls, endpoint: str) -> str:
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
    words: WordSettings = WordSettings()
    injection: InjectionSettings = InjectionSettings()
    proxy: ProxySettings = ProxySettings()
    storage: StorageSettings = StorageSettings()
    backup: BackupSettings = BackupSettings()
    audit: AuditSettings = AuditSettings()
    redaction: RedactionSettings = RedactionSettings()
    screening: ScreeningSettings = ScreeningSettings()
    ingest: IngestSettings = IngestSettings()
    review: ReviewSettings = ReviewSettings()
    log: LogSettings = LogSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    collections: dict[str, CollectionSettings] = Field(
        {}, max_length=MAX_COLLECTIONS, description="your own collections"
    )

    @model_validator(mode="after")
    def _check_searched_collections(self) -> Settings:
        for name in self.embedding.rag.collections:
            if name not in (*COLLECTIONS, *self.collections):
                raise ValueError(
                    f"embedding.rag.collections: unknown collection {name!r}; declare it in [collections]"
                )
        return self

    @field_validator("collections")
    @classmethod
    def _check_names(cls, collections: dict[str, CollectionSettings]) -> dict[str, CollectionSettings]:
        for name in collections:
            if name in COLLECTIONS:
                raise ValueError(f"{name!r} is a built-in collection")
            if not (
                name.isascii() and name.replace("_", "").isalnum() and name.islower() and len(name) <= 32
            ):
                raise ValueError(f"{name!r}: use 1 to 32 of a-z, 0-9 and _")
        return collections
