"""A daemon, and a home in which no memory of the user who runs the tests is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctx.cli.app import run
from tests.end_to_end.daemon_process import DaemonProcess


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path_factory.mktemp("daemon"), config='[embedding]\nprovider = "none"\n')
    try:
        yield daemon.start()
    finally:
        daemon.end()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in (
        "MEMORY_FILE_PATH",
        "CLAUDE_MEM_DATA_DIR",
        "XDG_DATA_HOME",
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    return home


class ImportCommand:
    """Runs `agentctx import --from` and returns its report. `err` is what it printed on stderr."""

    def __init__(self, daemon: DaemonProcess, capsys: pytest.CaptureFixture[str]) -> None:
        self._daemon, self.capsys = daemon, capsys
        self.err = ""
        self.code = 0

    def __call__(self, *args: str | Path) -> dict[str, Any]:
        self.capsys.readouterr()
        words = ["--socket", str(self._daemon.socket), "import", "--json", "--from", *map(str, args)]
        self.code = run(words)
        out, self.err = self.capsys.readouterr()
        report: dict[str, Any] = json.loads(out) if out else {}
        return report


@pytest.fixture
def import_from(daemon: DaemonProcess, capsys: pytest.CaptureFixture[str]) -> ImportCommand:
    return ImportCommand(daemon, capsys)
