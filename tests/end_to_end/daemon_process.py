"""A real daemon in a separate process, with real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from agentctx import Client
from tests.forked_process import ForkedCommand

READY_S = 60.0
STOP_S = 60.0


class DaemonProcess:
    """`agentctx serve` on a folder. Its log lines are in `log`.

    It is forked from a process that has imported the modules; with `from_shell`, Python starts it, taking
    a second of CPU time.
    """

    def __init__(
        self, folder: Path, *, config: str = "", socket: Path | None = None, from_shell: bool = False
    ) -> None:
        self.data_dir = folder / "data"
        self.state_home = folder / "state"
        self.socket = socket or folder / "a.sock"
        self.log: list[dict[str, Any]] = []
        config_file = folder / "agentctx.toml"
        config_file.write_text(config, encoding="utf-8")
        self._arguments = [
            *("serve", "--config", str(config_file)),
            *("--data-dir", str(self.data_dir), "--socket", str(self.socket)),
        ]
        self._from_shell = from_shell
        self._process: ForkedCommand | subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._ready = threading.Event()
        self._logged = threading.Condition()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> DaemonProcess:
        """Start the daemon and wait until its log says that it is ready."""
        self._ready.clear()
        self._process = self._begin()
        self._reader = threading.Thread(target=self._read_log, args=(self._process,))
        self._reader.start()
        assert self._ready.wait(READY_S), self.log
        assert self._process.poll() is None, self.log
        return self

    def run_to_exit(self) -> int:
        """Return the exit code of a daemon that cannot start."""
        self._process = self._begin()
        self._read_log(self._process)
        return self._process.wait(STOP_S)

    def client(self) -> Client:
        return Client(self.socket, timeout_s=READY_S)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the exit; return the exit code."""
        os.kill(self.pid, number)
        return self.wait()

    def wait(self) -> int:
        assert self._process is not None
        assert self._reader is not None
        code = self._process.wait(STOP_S)
        self._reader.join(STOP_S)
        return code

    def end(self) -> None:
        """Kill the daemon if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self.stop(signal.SIGKILL)

    def events(self) -> list[str]:
        return [str(line.get("event")) for line in self.log]

    def wait_for(self, event: str) -> None:
        """Wait until the log has a line for this event."""
        with self._logged:
            assert self._logged.wait_for(lambda: event in self.events(), READY_S), self.log

    def _begin(self) -> ForkedCommand | subprocess.Popen[bytes]:
        if self._from_shell:
            return in_shell([sys.executable, "-m", "agentctx", *self._arguments], self.state_home)
        return ForkedCommand(self._arguments, _environment(self.state_home))

    def _read_log(self, process: ForkedCommand | subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr as stream:
            for line in stream:
                with self._logged:
                    self.log.append(_parsed(line))
                    self._logged.notify_all()
                if self.log[-1].get("event") == "ready":
                    self._ready.set()
        self._ready.set()


def in_shell(command: list[str], state_home: Path) -> subprocess.Popen[bytes]:
    environment = _environment(state_home)
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except ValueError:
        return {"event": line.decode(errors="replace")}


def _environment(state_home: Path) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("AGENTCTX_")}
    return {**plain, "XDG_STATE_HOME": str(state_home)}
