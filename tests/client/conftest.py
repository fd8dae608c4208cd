from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.stub_daemon import StubDaemon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[StubDaemon]:
    with StubDaemon(tmp_path / "s").running() as stub:
        yield stub
