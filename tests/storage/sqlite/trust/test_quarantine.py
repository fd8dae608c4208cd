"""Quarantine in the SQLite engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.search import search
from tests.storage.quarantine_conformance import QuarantineConformance


@pytest.fixture(params=[0, 1_000])
async def storage(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SqliteStorage]:
    """So many may be left out of a search over all, before it goes over a list of the others."""
    monkeypatch.setattr(search, "MAX_EXCLUDED", request.param)
    opened = await SqliteStorage.open(tmp_path / "agentctx.db")
    yield opened
    await opened.close()


class TestSqliteQuarantine(QuarantineConformance):
    """Runs the suite."""
