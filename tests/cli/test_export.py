import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentctx.wire import ExportedEntry, ExportReply
from tests.cli.conftest import Agentctx
from tests.client.stub_daemon import StubDaemon, entry, status_reply


@pytest.fixture
def exporting(daemon: StubDaemon) -> StubDaemon:
    found = ExportedEntry(entry=entry(), versions=[], chunks=[])
    daemon.answer("GET", "/v1/status", (200, status_reply()))
    daemon.answer("GET", "/v1/export", (200, ExportReply(entries=[found], next=None)))
    return daemon


def command(daemon: StubDaemon, *args: str) -> list[str]:
    return [sys.executable, "-m", "agentctx", "--socket", str(daemon.socket), "export", *args]


def test_a_fifo_is_written_to_and_stays(agentctx: Agentctx, exporting: StubDaemon, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.extend(fifo.read_text().splitlines()))
    reader.start()
    assert agentctx("export", str(fifo)) == 0
    reader.join()
    assert len(read) == 2
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_the_stdout_device_is_appended_to(exporting: StubDaemon, tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("before\n")
    with target.open("a") as out:
        subprocess.run(command(exporting, "/dev/stdout", "--quiet"), stdout=out, check=True)
    assert len(target.read_text().splitlines()) == 3
    piped = subprocess.run(command(exporting, "/dev/stdout"), capture_output=True, check=True)
    assert len(piped.stdout.splitlines()) == 2
