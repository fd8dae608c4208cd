"""Daemons that are stopped after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.daemon_process import DaemonProcess


@pytest.fixture
def make_daemon(tmp_path: Path) -> Iterator[Callable[..., DaemonProcess]]:
    made: list[DaemonProcess] = []

    def make(folder: Path = tmp_path, **options: Any) -> DaemonProcess:
        folder.mkdir(exist_ok=True)
        made.append(DaemonProcess(folder, **options))
        return made[-1]

    yield make
    for daemon in made:
        daemon.end()
