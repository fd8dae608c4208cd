from __future__ import annotations

import pytest

from agentctx.storage.base import ServerEngine
from agentctx.storage.opening import server_engine
from agentctx_postgresql import plugin


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_the_daemon_finds_the_engine_by_the_scheme_of_the_url(scheme: str) -> None:
    offered: ServerEngine = plugin
    assert server_engine(f"{scheme}://me@db.example.org/memory") is offered
