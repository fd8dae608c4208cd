"""Versions of a SQLite memory are what a simple model says, over thousands of histories."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.embedding.providers.fake import FakeProvider
from agentctx_testing.drafts import ManualClock
from tests.amount import IS_WHOLE
from tests.running_core import running_core
from tests.service import histories

COUNT, AT_ONCE = (10_000, 100) if IS_WHOLE else (20, 20)


@pytest.mark.parametrize("first", range(0, COUNT, AT_ONCE))
async def test_versions_are_what_the_model_says(tmp_path: Path, first: int) -> None:
    clock = ManualClock()
    async with (
        running_core(tmp_path / "here", FakeProvider(dimension=8), clock=clock) as core,
        running_core(tmp_path / "there", None, clock=clock) as there,
    ):
        await histories.run(core, there, clock, first, AT_ONCE)
