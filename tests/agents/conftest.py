from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agents.bridge_process import BridgeProcess, stripped_environment
from tests.end_to_end.daemon_process import DaemonProcess

WITHOUT_MODEL = '[embedding]\nprovider = "none"\n'


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    running = DaemonProcess(tmp_path, config=WITHOUT_MODEL).start()
    yield running
    running.end()


@pytest.fixture
def start_bridge(tmp_path: Path) -> Iterator[Callable[..., BridgeProcess]]:
    started: list[BridgeProcess] = []

    def start(*args: str, cwd: Path = tmp_path) -> BridgeProcess:
        started.append(BridgeProcess("mcp", *args, env=stripped_environment(tmp_path), cwd=cwd))
        return started[-1]

    yield start
    for bridge in started:
        assert bridge.end() == 0
