"""A running proxy for the tests of a module, which run in the loop of their module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from conftest import logging_kept
from tests.llm.proxy.running_proxy import RunningProxy, running_proxy


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def started_proxy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningProxy]:
    with logging_kept():
        async with running_proxy(tmp_path_factory.mktemp("proxy")) as running:
            yield running


@pytest.fixture
def proxy(started_proxy: RunningProxy) -> RunningProxy:
    """The proxy of the module, with a vendor that has seen nothing yet."""
    started_proxy.vendor.reset()
    return started_proxy
