from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentctx.storage.injections import InjectionIds
from agentctx.storage.sqlite.engine import SqliteStorage
from tests.storage.drafts import ManualClock
from tests.storage.injections_conformance import InjectionsConformance


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def storage(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteStorage]:
    opened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock)
    yield opened
    await opened.close()


class TestSqliteInjections(InjectionsConformance):
    """Runs the suite."""


def test_ids_from_different_processes_sort_by_time() -> None:
    earlier, later = InjectionIds().new(1_767_225_600_000), InjectionIds().new(1_767_225_600_001)
    assert earlier < later
    assert earlier[:8] == later[:8]
