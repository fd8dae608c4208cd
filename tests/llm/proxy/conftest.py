"""A running proxy for every test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.llm.proxy.running_proxy import RunningProxy, running_proxy


@pytest.fixture
async def proxy(tmp_path: Path, logging_as_before: None) -> AsyncIterator[RunningProxy]:
    async with running_proxy(tmp_path) as running:
        yield running
