"""A running proxy for every test."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog

from tests.proxy.running_proxy import RunningProxy, running_proxy


@pytest.fixture
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
async def proxy(tmp_path: Path, _logging_as_before: None) -> AsyncIterator[RunningProxy]:
    async with running_proxy(tmp_path) as running:
        yield running
