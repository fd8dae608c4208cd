"""The model of a new installation, in this process: the baseline of what daemons do with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.providers.registry import create_provider


@asynccontextmanager
async def default_embedder() -> AsyncIterator[EmbeddingProvider]:
    """Yield the default provider and close it at the end."""
    provider = create_provider(EmbeddingSettings())
    if provider is None:
        raise RuntimeError("the default provider embeds nothing")
    try:
        yield provider
    finally:
        await provider.aclose()
