"""A storage with a serving space, and a callback that records what it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from agentctx.storage.records import Job
from agentctx.storage.sqlite.engine import SqliteStorage
from tests.storage.drafts import FINGERPRINT, ManualClock, vector


class Told:
    """Records the embed callbacks."""

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
def told() -> Told:
    return Told()


@pytest.fixture
async def storage(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteStorage]:
    opened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock)
    space = await opened.spaces.open(FINGERPRINT)
    await opened.spaces.prepare(space.id, vector(1))
    yield opened
    await opened.close()
