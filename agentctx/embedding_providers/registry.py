"""Which provider the config means. The only place that names implementations, imported when they are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentctx.config.schema import EmbeddingSettings
from agentctx.embedding_providers.base import EmbeddingProvider
from agentctx.errors import ConfigInvalid, UnknownProvider

NONE = "none"


@dataclass(frozen=True, slots=True)
class ProviderKind:
    """How a provider is made, and what can be said of it before that."""

    create: Callable[[EmbeddingSettings], EmbeddingProvider]
    needs_key: bool = False
    """Whether it cannot work without `embedding.api_key`."""
    is_remote: bool = False
    """Whether texts leave this process, so that a call may cost time and money."""


def create_provider(settings: EmbeddingSettings) -> EmbeddingProvider | None:
    """The provider of the config, or `None` for `none`: then answers are found by words alone.

    Raises:
        UnknownProvider: no provider has this id; the message lists those there are.
        ConfigInvalid: the settings do not fit the provider.
    """
    if settings.provider == NONE:
        return None
    return describe_provider(settings.provider).create(settings)


def describe_provider(provider_id: str) -> ProviderKind:
    """What is known of a provider, other than `none`, without making it.

    Raises:
        UnknownProvider: no provider has this id; the message lists those there are.
    """
    kind = _KINDS.get(provider_id)
    if kind is None:
        raise UnknownProvider(
            f"there is no embedding provider {provider_id!r}, only {', '.join(known_providers())}",
            hint="Set embedding.provider to one of these.",
        )
    return kind


def known_providers() -> tuple[str, ...]:
    """Every id that `embedding.provider` may have, the default first."""
    return (*_KINDS, NONE)


def _embedded(settings: EmbeddingSettings) -> EmbeddingProvider:
    from agentctx.embedding_providers.embedded.provider import (
        DEFAULT_DIMENSION,
        DEFAULT_MODEL,
        EmbeddedProvider,
    )

    own = None if settings.model in {"", DEFAULT_MODEL} else Path(settings.model).expanduser()
    if own is None and settings.dimensions not in {0, DEFAULT_DIMENSION}:
        raise ConfigInvalid(
            f"embedding.dimensions is {settings.dimensions}, {DEFAULT_MODEL} gives {DEFAULT_DIMENSION}",
            hint="Set embedding.dimensions to 0.",
        )
    return EmbeddedProvider(own, settings.threads, dimension=settings.dimensions)


def _fake(settings: EmbeddingSettings) -> EmbeddingProvider:
    from agentctx.embedding_providers.fake import DEFAULT_DIMENSION, FakeProvider

    dimension = settings.dimensions or DEFAULT_DIMENSION
    return FakeProvider(dimension, model=settings.model) if settings.model else FakeProvider(dimension)


_KINDS: dict[str, ProviderKind] = {
    "embedded": ProviderKind(_embedded),
    "fake": ProviderKind(_fake),
}
