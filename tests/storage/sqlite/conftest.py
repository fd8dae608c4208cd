from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx_testing.drafts import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def storage(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteStorage]:
    opened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock)
    yield opened
    await opened.close()
