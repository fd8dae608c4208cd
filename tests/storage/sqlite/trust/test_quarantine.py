"""Quarantine in the SQLite engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.search import vector_search
from agentctx_testing.conformance.storage.quarantine import QuarantineConformance


@pytest.fixture(params=[0, 1_000])
async def storage(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SqliteStorage]:
    """The parameter is how many entries a search may exclude before it lists the allowed ones instead."""
    monkeypatch.setattr(vector_search, "MAX_EXCLUDED", request.param)
    opened = await SqliteStorage.open(tmp_path / "agentctx.db")
    yield opened
    await opened.close()


class TestSqliteQuarantine(QuarantineConformance):
    """Runs the suite."""
