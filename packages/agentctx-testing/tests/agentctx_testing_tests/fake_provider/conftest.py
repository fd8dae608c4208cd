from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from agentctx_testing.fake_provider.serving import FakeProviderServer, running

DIMENSION = 8
TIMEOUT_S = 10.0
"""No test waits that long unless the server hangs."""


@pytest.fixture
async def server() -> AsyncIterator[FakeProviderServer]:
    """Every provider, with vectors of length 8; dates count from the epoch."""
    async with running(dimension=DIMENSION, clock=lambda: 0) as fake:
        yield fake


@pytest.fixture
async def http(server: FakeProviderServer) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key for every provider."""
    headers = {"Authorization": "Bearer k", "x-goog-api-key": "k"}
    async with httpx.AsyncClient(
        base_url=server.url, headers=headers, trust_env=False, timeout=TIMEOUT_S
    ) as client:
        yield client
