"""Versions on a PostgreSQL server are what a simple model says."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.embedding.providers.fake import FakeProvider
from agentctx_postgresql import connections
from agentctx_postgresql.clock import ServerClock
from agentctx_testing.drafts import ManualClock
from tests.amount import IS_WHOLE
from tests.running_core import running_core
from tests.service import histories

COUNT = 300 if IS_WHOLE else 5


async def test_versions_are_what_the_model_says(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, storage = ManualClock(), {"url": database}

    class ServersClock(ServerClock):
        def __call__(self) -> int:
            return clock()

    monkeypatch.setattr(connections, "ServerClock", ServersClock)
    async with (
        running_core(tmp_path / "here", FakeProvider(dimension=8), clock=clock, storage=storage) as core,
        running_core(tmp_path / "there", None, clock=clock) as there,
    ):
        await histories.run(core, there, clock, 0, COUNT)
