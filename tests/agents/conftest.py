"""One agent in a home of its own, for each test and each agent that is installed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agents.real_agents import REAL_AGENTS
from tests.agents.workshop import Workshop, workshop


@pytest.fixture(params=list(REAL_AGENTS))
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Workshop]:
    agent = REAL_AGENTS[request.param]()
    if agent.path() is None:
        pytest.skip(f"{agent.name} is not installed; run `make test-agents`")
    async with workshop(agent, tmp_path) as running:
        yield running
