import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from agentctx.cli.demo_daemon import DemoDaemon, own_environment, serve_command
from agentctx.client.sync_client import Client
from agentctx.errors import DeadlineExceeded

DEAF = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").close()
signal.pause()
"""


def test_the_daemon_uses_only_the_folder() -> None:
    command = serve_command(Path("/demo"))

    assert command[:5] == [sys.executable, "-P", "-m", "agentctx", "serve"]
    assert command[5:] == [
        "--config",
        "/demo/agentctx.toml",
        "--data-dir",
        "/demo/data",
        "--socket",
        "/demo/agentctx.sock",
    ]


def test_the_users_settings_are_ignored() -> None:
    given = {"PATH": "/bin", "AGENTCTX_EMBEDDING__PROVIDER": "openai", "NOTIFY_SOCKET": "/run/n"}

    assert own_environment(given) == {"PATH": "/bin"}


def test_waiting_for_an_unready_daemon_ends(tmp_path: Path) -> None:
    waiting = [sys.executable, "-c", "import signal; signal.pause()"]
    seconds = count()

    with (
        DemoDaemon(tmp_path, waiting) as daemon,
        Client(daemon.socket) as client,
        pytest.raises(DeadlineExceeded, match="not ready after 3 s"),
    ):
        daemon.wait_ready(client, timeout_s=3, clock=lambda: next(seconds))


def test_a_daemon_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    listening = tmp_path / "deaf"
    os.mkfifo(listening)
    with DemoDaemon(tmp_path, [sys.executable, "-c", DEAF, str(listening)]) as daemon:
        listening.read_bytes()
        assert daemon.stop(timeout_s=0.05) == -9


def test_a_package_of_that_name_in_the_current_folder_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "agentctx.py").write_text("raise SystemExit('the wrong one')")
    command = [*serve_command(tmp_path)[:5], "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "--data-dir" in done.stdout) == (0, True), done.stderr
