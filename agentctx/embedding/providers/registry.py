"""Creates the configured provider. Only this module names implementations; it imports them when needed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.providers.prices import price_of
from agentctx.embedding.providers.spending import FILE_NAME, Clock, Spending
from agentctx.errors import ConfigInvalid, UnknownProvider
from agentctx.times import wall_clock

NONE = "none"


@dataclass(frozen=True, slots=True)
class ProviderKind:
    """How to create a provider, and what is known of it beforehand."""

    create: Callable[[EmbeddingSettings, Spending], EmbeddingProvider]
    needs_key: bool = False
    """Whether the provider requires `embedding.api_key`."""
    is_remote: bool = False
    """Whether texts leave this process, so that a call may cost time and money."""
    key_variables: tuple[str, ...] = ()
    """Environment variables for the key if `embedding.api_key` is not set, in order of precedence."""


def open_spending(
    settings: EmbeddingSettings, folder: Path | None, clock: Clock, *, file_name: str = FILE_NAME
) -> Spending | None:
    """Open the spending count of the configured provider, a file in `folder`; None for a local provider.

    Raises:
        UnknownProvider: no provider has this id.
    """
    if settings.provider == NONE or not describe_provider(settings.provider).is_remote:
        return None
    from agentctx.embedding.providers.remote.services import model_of

    service_id, limits = _ALIASES.get(settings.provider, settings.provider), settings.limits
    price = price_of(service_id, model_of(service_id, settings), limits.usd_per_million_tokens)
    return Spending(price, limits.usd_per_day, folder=folder, file_name=file_name, clock=clock)


def create_provider(
    settings: EmbeddingSettings, spending: Spending | None = None
) -> EmbeddingProvider | None:
    """Create the configured provider, or return None for `none`: then search uses keywords only.

    `spending` counts its cost and enforces the cap; None counts in memory.

    Raises:
        UnknownProvider: no provider has this id; the message lists the known ones.
        ConfigInvalid: the settings do not fit the provider.
    """
    if settings.provider == NONE:
        return None
    kind = describe_provider(settings.provider)
    if not kind.is_remote and (settings.query_prefix or settings.document_prefix):
        raise ConfigInvalid(
            f"embedding.query_prefix and document_prefix are not supported by {settings.provider}.",
            hint="Remove them, or choose an HTTP provider.",
        )
    if not kind.is_remote and settings.input_types:
        raise ConfigInvalid(
            f"embedding.input_types is set, but {settings.provider} does not support input types.",
            hint="Remove it, or choose cohere, voyage or google.",
        )
    spending = spending or open_spending(settings, None, wall_clock) or Spending(clock=wall_clock)
    return kind.create(settings, spending)


def describe_provider(provider_id: str) -> ProviderKind:
    """Describe a provider other than `none` without creating it.

    Raises:
        UnknownProvider: no provider has this id; the message lists the known ones.
    """
    kind = _KINDS.get(_ALIASES.get(provider_id, provider_id))
    if kind is None:
        raise UnknownProvider(
            f"Unknown embedding provider {provider_id!r}. Available: {', '.join(known_providers())}.",
            hint="Set embedding.provider to one of these.",
        )
    return kind


def known_providers() -> tuple[str, ...]:
    """Return all values of `embedding.provider`, the default first; `local` is an alias of `ollama`."""
    return (*_KINDS, NONE)


def provider_key(settings: EmbeddingSettings) -> SecretStr | None:
    """Return `embedding.api_key`, else the first of the configured provider's variables that is set."""
    if settings.api_key is not None and settings.api_key.get_secret_value():
        return settings.api_key
    kind = _KINDS.get(_ALIASES.get(settings.provider, settings.provider))
    values = (os.environ.get(variable) for variable in (kind.key_variables if kind else ()))
    return next((SecretStr(value) for value in values if value), None)


def remote_url(settings: EmbeddingSettings) -> str:
    """Return the address of the configured provider; empty unless it is a known one over HTTP."""
    from agentctx.embedding.providers.remote.services import SERVICES

    service = SERVICES.get(_ALIASES.get(settings.provider, settings.provider))
    return (settings.base_url or service.base_url) if service else ""


def _embedded(settings: EmbeddingSettings, _: Spending) -> EmbeddingProvider:
    from agentctx.embedding.providers.embedded.built_models import BUILT_MODELS, MINILM
    from agentctx.embedding.providers.embedded.provider import EmbeddedProvider

    built = BUILT_MODELS.get(settings.model or MINILM.name)
    if built is None:
        own = Path(settings.model).expanduser()
        return EmbeddedProvider(own, settings.threads, dimension=settings.dimensions)
    if settings.dimensions not in {0, built.dimension}:
        raise ConfigInvalid(
            f"embedding.dimensions is {settings.dimensions}, but {built.name} has {built.dimension}.",
            hint="Set embedding.dimensions to 0.",
        )
    built.require_extra()
    return EmbeddedProvider(threads=settings.threads, built=built)


def _fake(settings: EmbeddingSettings, _: Spending) -> EmbeddingProvider:
    from agentctx.embedding.providers.fake import DEFAULT_DIMENSION, DEFAULT_MODEL, FakeProvider

    dimension = settings.dimensions or DEFAULT_DIMENSION
    return FakeProvider(dimension, model=settings.model or DEFAULT_MODEL, records=False)


def _remote(settings: EmbeddingSettings, spending: Spending) -> EmbeddingProvider:
    from agentctx.embedding.providers.remote.services import create_remote

    service_id = _ALIASES.get(settings.provider, settings.provider)
    kind, key = _KINDS[service_id], provider_key(settings)
    if kind.needs_key and key is None:
        raise ConfigInvalid(
            f"{service_id} needs a key, but embedding.api_key is not set.",
            hint="Set AGENTCTX_EMBEDDING__API_KEY, a systemd credential named agentctx_embedding__api_key, "
            f"or {' or '.join(kind.key_variables)}.",
        )
    return create_remote(service_id, settings, key, spending)


def _with_key(*variables: str) -> ProviderKind:
    return ProviderKind(_remote, needs_key=True, is_remote=True, key_variables=variables)


_KINDS: dict[str, ProviderKind] = {
    "embedded": ProviderKind(_embedded),
    "openai": _with_key("OPENAI_API_KEY"),
    "google": _with_key("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "ollama": ProviderKind(_remote, is_remote=True),
    "openai-compatible": ProviderKind(_remote, is_remote=True),
    "cohere": _with_key("COHERE_API_KEY", "CO_API_KEY"),
    "voyage": _with_key("VOYAGE_API_KEY"),
    "fake": ProviderKind(_fake),
}
_ALIASES = {"local": "ollama"}
