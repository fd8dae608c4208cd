"""What tests of several packages share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests import chroma_server

# How fast a machine is, is no property of the code.
settings.register_profile("agentctx", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("agentctx")


@pytest.fixture(scope="session")
def chroma_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a Chroma server, one for all tests."""
    port = chroma_server.free_port()
    with chroma_server.running(tmp_path_factory.mktemp("chroma-server"), port):
        yield port
