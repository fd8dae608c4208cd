"""Other programs import these names; they stay where they are."""

from __future__ import annotations

from importlib import import_module

import pytest

import agentctx

PUBLIC = {
    "agentctx": ("AsyncClient", "Client", "ContextAwareModelAdapter", "__version__"),
    "agentctx.wire": ("SaveRequest",),
    "agentctx.client.async_client": ("AsyncClient",),
    "agentctx.client.sync_client": ("Client",),
    "agentctx.client.sdk": ("anthropic", "async_anthropic", "async_openai", "openai"),
    "agentctx.config.embedding": ("EmbeddingSettings",),
    "agentctx.embedding": ("create_provider",),
}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_can_be_imported(module: str) -> None:
    imported = import_module(module)
    for name in PUBLIC[module]:
        assert getattr(imported, name) is not None, name


def test_the_package_exports_exactly_these() -> None:
    assert sorted(PUBLIC["agentctx"]) == sorted(agentctx.__all__)


def test_a_provider_is_created_from_settings() -> None:
    from agentctx.config.embedding import EmbeddingSettings
    from agentctx.embedding import create_provider

    provider = create_provider(EmbeddingSettings(provider="fake", dimensions=8))
    assert provider is not None
    assert provider.dimension == 8
