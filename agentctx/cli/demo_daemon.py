"""The daemon of the demo: a process with its own folder, config, socket and log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Self

from agentctx.cli.termination import defer_termination
from agentctx.client.sync_client import Client
from agentctx.errors import AgentctxError, DaemonUnreachable, DeadlineExceeded

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0
_POLL_S = 0.02
_LOG_TAIL_LINES = 25
_FOREIGN = ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "CREDENTIALS_DIRECTORY", "RUNTIME_DIRECTORY")


def serve_command(folder: Path) -> list[str]:
    """Return the command line of a daemon that keeps all its files in `folder`."""
    own = {"--config": folder / "agentctx.toml", "--data-dir": folder / "data", "--socket": socket_in(folder)}
    options = [str(word) for option in own.items() for word in option]
    return [sys.executable, "-P", "-m", "agentctx", "serve", *options]


def socket_in(folder: Path) -> Path:
    return folder / "agentctx.sock"


def own_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables that configure or supervise another daemon."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("AGENTCTX_") and name not in _FOREIGN
    }


class DemoDaemon:
    """A running daemon. Leaving the context stops it, by force if necessary, unless `stop` was called."""

    def __init__(self, folder: Path, command: Sequence[str] | None = None) -> None:
        self.socket = socket_in(folder)
        self.command = list(command or serve_command(folder))
        self._log = folder / "daemon.log"
        # An empty config of its own: the demo must not depend on the user's.
        (folder / "agentctx.toml").touch()
        with self._log.open("wb") as log:
            self._process = _started(self.command, log, folder)

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self.stop()

    def wait_ready(
        self,
        client: Client,
        *,
        timeout_s: float = READY_TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wait until `/readyz` succeeds.

        Raises:
            AgentctxError: the daemon ended first.
            DeadlineExceeded: it was not ready in time.
        """
        deadline = clock() + timeout_s
        while not _is_ready(client):
            if (code := self._process.poll()) is not None:
                raise AgentctxError(f"The daemon ended with exit code {code} before it was ready.")
            if clock() >= deadline:
                raise DeadlineExceeded(f"The daemon was not ready after {timeout_s:g} s.")
            time.sleep(_POLL_S)

    def stop(self, *, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Send SIGTERM, then SIGKILL if the daemon does not end in time, and return the exit code."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def log_tail(self) -> str:
        """Return the last lines of the daemon's log."""
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL_LINES:])


def _is_ready(client: Client) -> bool:
    try:
        return client.ready()
    except DaemonUnreachable:
        return False


def _started(command: Sequence[str], log: BinaryIO, folder: Path) -> subprocess.Popen[bytes]:
    """Start the process in its own session: Ctrl-C reaches only the demo, which then stops the process."""
    process: subprocess.Popen[bytes] | None = None
    try:
        with defer_termination():
            process = subprocess.Popen(  # noqa: S603 - our own command line, no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**own_environment(os.environ), "XDG_STATE_HOME": str(folder / "state")},
                start_new_session=True,
            )
    except BaseException:
        if process is not None:
            process.kill()
            process.wait()
        raise
    return process
