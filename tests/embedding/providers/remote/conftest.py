from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import pytest

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.registry import create_provider
from agentctx.embedding.providers.remote.provider import RemoteProvider
from tests.embedding.providers.remote.loopback import Loopback, loopback
from tests.embedding.providers.remote.wire_answers import ANSWERS, settings_of

MakeProvider: TypeAlias = Callable[..., RemoteProvider]


@pytest.fixture
async def server() -> AsyncIterator[Loopback]:
    """A server that speaks OpenAI's format."""
    async with loopback(ANSWERS["openai"]) as running:
        yield running


@pytest.fixture
async def connect(server: Loopback) -> AsyncIterator[MakeProvider]:
    """Create providers that use `server`; close them at the end."""
    made: list[RemoteProvider] = []

    def make(provider: str = "openai", **more: Any) -> RemoteProvider:
        settings = EmbeddingSettings.model_validate(settings_of(provider, server.base_url, **more))
        created = create_provider(settings)
        assert isinstance(created, RemoteProvider)
        made.append(created)
        return created

    yield make
    for provider in made:
        await provider.aclose()
