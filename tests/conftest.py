"""What tests of several packages share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import chroma_server


@pytest.fixture(scope="session")
def chroma_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a Chroma server, one for all tests."""
    port = chroma_server.free_port()
    with chroma_server.running(tmp_path_factory.mktemp("chroma-server"), port):
        yield port
