"""A pytest plugin: `-p tests.system.sandboxed_daemons` runs every daemon of the tests in the sandbox.

Their clients stay outside, as for the service. `SANDBOX_WITHOUT_NETWORK=1` removes the network.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from agentctx.config.paths import cache_dir
from tests.end_to_end import daemon_process
from tests.end_to_end.daemon_process import DaemonProcess, in_shell

_KILLED: Final = 128
"""bwrap's exit code for a command that was killed by a signal, minus the signal."""


class Sandboxed(DaemonProcess):
    """A daemon inside bwrap, with the daemon's own pid and exit code."""

    def _begin(self) -> subprocess.Popen[bytes]:
        configuration = self._arguments[self._arguments.index("--config") + 1]
        return in_shell(
            [
                *(sys.executable, "-m", "tests.system.sandbox"),
                *(["--no-network"] if os.environ.get("SANDBOX_WITHOUT_NETWORK") else []),
                *("--writable", str(self.socket.parent), "--writable", str(self.data_dir)),
                *("--writable", str(self.state_home)),
                *("--readable", configuration, "--readable", str(cache_dir())),
                *("--", sys.executable, "-m", "tests.system.no_programs", "agentctx", *self._arguments),
            ],
            self.state_home,
        )

    def start(self) -> DaemonProcess:
        self._make_folders()
        return super().start()

    @property
    def pid(self) -> int:
        outer = super().pid
        try:
            inner = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        except FileNotFoundError:
            return outer
        return int(inner[0]) if inner else outer

    def wait(self) -> int:
        return _code(super().wait())

    def run_to_exit(self) -> int:
        self._make_folders()
        return _code(super().run_to_exit())

    def _make_folders(self) -> None:
        """Create the folders before the daemon starts, like StateDirectory=."""
        for folder in (self.data_dir, self.state_home):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _code(of_bwrap: int) -> int:
    return _KILLED - of_bwrap if of_bwrap > _KILLED else of_bwrap


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Replace the class before any test imports it."""
    daemon_process.DaemonProcess = Sandboxed  # type: ignore[misc]
