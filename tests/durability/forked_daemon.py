"""A real daemon in a forked process, which starts in milliseconds.

It calls `serve` as the command does, and dies by real signals. It may be a broken build (`sabotage`).
"""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from agentctx import Client
from tests.durability import sabotage
from tests.forked_process import forking

READY_S = 60.0
STOP_S = 60.0


class DaemonEnded(Exception):
    """The daemon exited without being stopped."""


class ForkedDaemon:
    """`agentctx serve` in a folder that contains data, socket and config. `log` has its log lines."""

    def __init__(self, folder: Path, *, socket: Path | None = None) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.socket = socket or folder / "a.sock"
        self.log: list[dict[str, Any]] = []
        self._process: BaseProcess | None = None
        self._reader: threading.Thread | None = None
        self._ready = threading.Event()
        self._is_broken = False

    @property
    def pid(self) -> int:
        assert self._process is not None
        assert self._process.pid is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_alive()

    def begin(self, config: str = "", *, broken: str = "") -> None:
        """Start it without waiting. `broken` names a sabotage."""
        config_file = self.folder / "agentctx.toml"
        config_file.write_text(config, encoding="utf-8")
        self._is_broken = bool(broken)
        self.log.clear()
        self._ready.clear()
        log_end, daemon_end = forking().Pipe(duplex=False)
        places = (str(config_file), str(self.data_dir), str(self.socket))
        self._process = forking().Process(target=_serve, args=(*places, daemon_end, broken), daemon=True)
        self._process.start()
        daemon_end.close()
        self._reader = threading.Thread(target=self._read_log, args=(log_end,), daemon=True)
        self._reader.start()

    def start(self, config: str = "", *, broken: str = "") -> ForkedDaemon:
        """Start it and wait until its log says that it is ready."""
        self.begin(config, broken=broken)
        self.wait_until_ready()
        return self

    def wait_until_ready(self) -> None:
        """Raise DaemonEnded, or RuntimeError if the sabotage failed, which would prove nothing."""
        assert self._ready.wait(READY_S), self.log
        if "ready" not in self.events():
            what = str(self.log[-3:])
            raise RuntimeError(what) if self._is_broken else DaemonEnded(what)

    def wait_ready_or_ended(self) -> None:
        """Wait for a daemon that may be refused."""
        assert self._ready.wait(READY_S), self.log

    def wait_ready_at_most(self, seconds: float) -> bool:
        """Return whether it became ready (or exited) in time."""
        return self._ready.wait(seconds)

    def client(self, **options: Any) -> Client:
        return Client(self.socket, **{"timeout_s": READY_S, **options})

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the exit and return the exit code, negative for a signal."""
        self.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        assert self._process is not None
        assert self._reader is not None
        self._process.join(STOP_S)
        code = self._process.exitcode
        assert code is not None, self.log
        self._reader.join(STOP_S)
        return code

    def end(self) -> None:
        """Kill the daemon if it still runs."""
        if self.is_running:
            self.stop(signal.SIGKILL)

    def events(self) -> list[str]:
        return [str(line.get("event")) for line in list(self.log)]

    def _read_log(self, log_end: Connection) -> None:
        with os.fdopen(os.dup(log_end.fileno()), "rb") as stream:
            log_end.close()
            for line in stream:
                self.log.append(_parsed(line))
                if self.log[-1].get("event") == "ready":
                    self._ready.set()
        self._ready.set()


def _serve(config: str, data_dir: str, socket: str, log: Connection, broken: str) -> None:
    """Run in the forked process."""
    os.dup2(log.fileno(), 2)
    log.close()
    for name in [name for name in os.environ if name.startswith("AGENTCTX_")]:
        del os.environ[name]
    os.environ["XDG_STATE_HOME"] = str(Path(config).parent / "state")
    sabotage.apply(broken)
    from agentctx.daemon.run import serve

    code = serve(Path(config), Path(data_dir), Path(socket))
    os._exit(code)


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except ValueError:
        return {"event": line.decode(errors="replace")}
