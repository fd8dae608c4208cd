"""Each test runs for each installed agent, in a separate home."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.real_agents.real_agents import REAL_AGENTS, RealAgent
from tests.real_agents.workshop import Workshop, workshop


@pytest.fixture(params=list(REAL_AGENTS))
def agent(request: pytest.FixtureRequest) -> RealAgent:
    found = REAL_AGENTS[request.param]()
    if found.path() is None:
        pytest.skip(f"{found.name} is not installed; run `make test-agents`")
    return found


@pytest.fixture
async def shop(agent: RealAgent, tmp_path: Path) -> AsyncIterator[Workshop]:
    async with workshop(agent, tmp_path) as running:
        yield running


@pytest.fixture
async def wrapped_shop(agent: RealAgent, tmp_path: Path) -> AsyncIterator[Workshop]:
    """An agent that calls its own vendor and is started by `agentctx wrap`."""
    if not agent.can_be_wrapped:
        pytest.skip(f"{agent.name} reads its base URL from no environment variable")
    async with workshop(agent, tmp_path, wrapped=True) as running:
        yield running
