"""A storage with a prepared space, and a callback that records its calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from agentctx.storage.records import Job
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx_testing.drafts import FINGERPRINT, ManualClock, vector


class EmbedCalls:
    """An embed callback that records its calls."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.calls = 0

    def __call__(self, jobs: Sequence[Job]) -> None:
        self.calls += 1
        self.jobs += jobs

    @property
    def texts(self) -> list[str]:
        return [job.text for job in self.jobs]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def embed_calls() -> EmbedCalls:
    return EmbedCalls()


@pytest.fixture
async def storage(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteStorage]:
    opened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock)
    space = await opened.spaces.open(FINGERPRINT)
    await opened.spaces.prepare(space.id, vector(1))
    yield opened
    await opened.close()
