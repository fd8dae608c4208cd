"""The supported HTTP services, and the creation of a provider for one from the config."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from pydantic import SecretStr

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.base import ProviderLimits
from agentctx.embedding.providers.rate_limits import RateLimits
from agentctx.embedding.providers.remote.http import Address
from agentctx.embedding.providers.remote.provider import RemoteProvider
from agentctx.embedding.providers.remote.wire_format import (
    CohereFormat,
    GoogleFormat,
    OllamaFormat,
    OpenAIBase64Format,
    OpenAIFormat,
    VoyageFormat,
)
from agentctx.embedding.providers.spending import Spending
from agentctx.errors import ConfigInvalid

_UNTYPED_MODELS = ("gemini-embedding-2",)
"""Models that ignore the input types of their service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteService:
    """The built-in knowledge about a service."""

    wire_format: type[OpenAIFormat]
    limits: ProviderLimits
    base_url: str = ""
    """The default of `embedding.base_url`; empty if that setting is required."""
    model: str = ""
    """The default of `embedding.model`; empty if that setting is required."""
    key_header: str = "authorization"


SERVICES: dict[str, RemoteService] = {
    "openai": RemoteService(
        wire_format=OpenAIBase64Format,
        limits=ProviderLimits(max_inputs=2_048, max_tokens=300_000),
        base_url="https://api.openai.com/v1",
        model="text-embedding-3-small",
    ),
    "google": RemoteService(
        wire_format=GoogleFormat,
        limits=ProviderLimits(max_inputs=100),
        base_url="https://generativelanguage.googleapis.com/v1beta",
        model="gemini-embedding-2",
        key_header="x-goog-api-key",
    ),
    "ollama": RemoteService(
        wire_format=OllamaFormat,
        limits=ProviderLimits(max_inputs=256),
        base_url="http://127.0.0.1:11434",
        model="nomic-embed-text",
    ),
    # text-embeddings-inference accepts 32 inputs by default.
    "openai-compatible": RemoteService(wire_format=OpenAIFormat, limits=ProviderLimits(max_inputs=32)),
    "cohere": RemoteService(
        wire_format=CohereFormat,
        limits=ProviderLimits(max_inputs=96),
        base_url="https://api.cohere.com",
        model="embed-v4.0",
    ),
    # The token limit is that of the most restrictive model. 1,000 inputs are allowed, but parsing an
    # answer that long would be slow.
    "voyage": RemoteService(
        wire_format=VoyageFormat,
        limits=ProviderLimits(max_inputs=128, max_tokens=120_000),
        base_url="https://api.voyageai.com/v1",
        model="voyage-4",
    ),
}


def model_of(service_id: str, settings: EmbeddingSettings) -> str:
    """Return the configured model, else the service's default; empty if there is neither."""
    service = SERVICES.get(service_id)
    return settings.model or (service.model if service else "")


def create_remote(
    service_id: str, settings: EmbeddingSettings, key: SecretStr | None, spending: Spending
) -> RemoteProvider:
    """Create the provider of a service in `SERVICES` without contacting it.

    Raises:
        ConfigInvalid: the address or model is missing, the address or key is unusable, the service has no
            input types, or a cap is set although the price is unknown.
    """
    service = SERVICES[service_id]
    model = model_of(service_id, settings)
    if not model:
        raise ConfigInvalid(
            f"{service_id} needs a model name.", hint="Set embedding.model to a model of that server."
        )
    if settings.limits.usd_per_day and spending.price is None:
        raise ConfigInvalid(
            f"embedding.limits.usd_per_day is set, but the price of {model} is not known.",
            hint="Set embedding.limits.usd_per_million_tokens.",
        )
    rates = RateLimits(settings.limits.requests_per_minute, settings.limits.tokens_per_minute)
    return RemoteProvider(
        service_id,
        settings,
        wire_format=_wire_format(service_id, model, settings),
        address=Address(
            base_url=_checked_url(service_id, settings.base_url or service.base_url),
            key=_checked_key(key),
            key_header=service.key_header,
            use_environment_proxies=settings.use_environment_proxies,
        ),
        limits=_limits(service.limits, rates, settings.queue.batch_size),
        rates=rates,
        spending=spending,
    )


def _wire_format(service_id: str, model: str, settings: EmbeddingSettings) -> OpenAIFormat:
    made = SERVICES[service_id].wire_format(model, settings.dimensions, settings.input_types)
    if settings.input_types and (not made.type_field or made.name.startswith(_UNTYPED_MODELS)):
        raise ConfigInvalid(
            f"embedding.input_types is set, but {service_id} {model} does not support input types.",
            hint="Set embedding.query_prefix and document_prefix as the model card says.",
        )
    return made


def _limits(limits: ProviderLimits, rates: RateLimits, batch_size: int) -> ProviderLimits:
    """Return the service's limits, lowered so that the rate limit lets every request through."""
    own = [most for most in (limits.max_tokens, rates.documents.max_tokens) if most is not None]
    return replace(
        limits,
        max_tokens=min(own, default=None),
        longest_wait_s=rates.documents.longest_wait_s(batch_size),
    )


def _checked_url(service_id: str, url: str) -> str:
    """Validate the address. It is part of the fingerprint, so it must not contain a password."""
    if not url:
        raise ConfigInvalid(
            f"{service_id} needs a base URL.",
            hint="Set embedding.base_url, for example http://127.0.0.1:8080/v1.",
        )
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigInvalid("embedding.base_url is not a valid URL.", hint="Use https://host:port/path.")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise ConfigInvalid(
            "embedding.base_url contains a user name, password, query or fragment.",
            hint="Use https://host:port/path only; the key belongs in embedding.api_key.",
        )
    return url.rstrip("/")


def _checked_key(key: SecretStr | None) -> SecretStr | None:
    """Reject an invalid key here, because the HTTP library's error would quote it."""
    value = key.get_secret_value() if key else ""
    if not value:
        return None
    if not (value.isascii() and value.isprintable()) or " " in value:
        raise ConfigInvalid(
            "The embedding provider's key contains whitespace, a line break or a non-ASCII character.",
            hint="Write it without, for example with `printf %s`.",
        )
    return key
