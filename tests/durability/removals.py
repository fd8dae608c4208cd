"""Files that are removed, replaced or moved under a running daemon while clients save."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from agentctx.daemon.run import EXIT_CONFIG
from agentctx.errors import AgentctxError
from agentctx.storage.file.driver import open_connection
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.opening import offline_storage
from agentctx.times import wall_clock
from tests.durability.forked_daemon import ForkedDaemon
from tests.durability.inspection import inspect
from tests.durability.ledger import Ledger
from tests.durability.search import Search, SearchSuite
from tests.durability.suite import Figures

CLIENTS = 4
SAVES_BEFORE = 40
NOTICED_S = 20.0
BLIND_S = 2.0
"""Seconds to wait for a build that does not check its files."""
_CONFIG = '[embedding]\nprovider = "fake"\n[storage]\nsweep_interval_s = 0.2\n'


@dataclass
class _Client:
    """Saves until stopped. Refusals must be storage errors."""

    number: int
    daemon: ForkedDaemon
    acknowledged: threading.Semaphore
    ledger: Ledger = field(default_factory=Ledger)
    violations: list[str] = field(default_factory=list)
    refused: int = 0

    def work(self, stop: threading.Event) -> None:
        with closing(self.daemon.client(timeout_s=NOTICED_S)) as client:
            made = 0
            while not stop.is_set():
                made += 1
                text = f"client {self.number} text {time.monotonic_ns()} {made}"
                try:
                    saved = client.save_observation("s", text)
                except AgentctxError as error:
                    self.refused += 1
                    if error.code != "storage_failed" or not error.hint:
                        self.violations.append(f"a save failed with {error.code}: {error.message}")
                    stop.wait(0.05)
                else:
                    self.ledger.created(saved.id, saved.version, text)
                    self.acknowledged.release()


@dataclass
class Removals(Search):
    """Removals of each kind in turn, in random order."""

    ledgers: list[Ledger] = field(default_factory=list)
    refused: int = 0
    slowest_s: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.database = self.daemon.data_dir / DATABASE_NAME
        self._left: list[Callable[[], object]] = []

    def attempt(self) -> None:
        if not self._left:
            self._left = [*self._kinds()]
            self.rng.shuffle(self._left)
        self._remove(self._left.pop())

    def _kinds(self) -> tuple[Callable[[], object], ...]:
        return (
            self._unlink,
            self._remove_folder,
            self._remove_wal,
            self._remove_index,
            self._move_folder,
            self._move_file,
            self._replace,
        )

    def _remove(self, kind: Callable[[], object]) -> None:
        self.daemon.start(_CONFIG, broken=self.broken)
        acknowledged, stop = threading.Semaphore(0), threading.Event()
        clients = [_Client(number, self.daemon, acknowledged) for number in range(CLIENTS)]
        threads = [threading.Thread(target=client.work, args=(stop,)) for client in clients]
        for thread in threads:
            thread.start()
        try:
            for _ in range(self.rng.randrange(SAVES_BEFORE)):
                acknowledged.acquire(timeout=NOTICED_S)
            began = time.monotonic()
            kind()
            self._await("database_files_lost")
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self._end()
        self._judge(kind.__name__, clients)

    def _end(self) -> None:
        """Let the daemon end by itself, stop it, or kill it once it has its copy."""
        how = self.rng.choice(["by itself", "stopped", "killed"])
        if self.broken or how == "stopped":
            self.daemon.stop()
        elif how == "killed":
            self._await("database_rescued")
            self.daemon.stop(signal.SIGKILL)
        elif (code := self.daemon.wait()) != EXIT_CONFIG:
            self.violations.append(f"the daemon ended with {code}")

    def _judge(self, kind: str, clients: list[_Client]) -> None:
        self.done += 1
        self.refused += sum(client.refused for client in clients)
        self.ledgers += [client.ledger for client in clients]
        found = [line for client in clients for line in client.violations]
        copies = list(self.daemon.data_dir.glob(f"{DATABASE_NAME}.rescued-*Z"))
        if len(copies) == 1:
            found += self._start_refused(copies[0])
            offline_storage().restore(copies[0], self.database, now=wall_clock())
            found += inspect(self.daemon.data_dir).violations(self.ledgers)
        else:
            found.append(f"there are {len(copies)} copies")
        self.note(f"removal {self.done} ({kind.strip('_')})", found)

    def _start_refused(self, copy: Path) -> Iterator[str]:
        """Yield what is wrong with the next start, which must name the copy and write nothing."""
        there = sorted(path.name for path in self.daemon.data_dir.iterdir())
        self.daemon.begin(_CONFIG, broken=self.broken)
        self.daemon.wait_ready_or_ended()
        if "ready" in self.daemon.events():
            yield "the next start served"
            self.daemon.stop()
        elif (code := self.daemon.wait()) != EXIT_CONFIG:
            yield f"the next start ended with {code}"
        if not any(f"agentctx restore {copy} " in str(line.get("hint")) for line in self.daemon.log):
            yield f"the next start does not name the copy: {self.daemon.log[-1:]}"
        if sorted(path.name for path in self.daemon.data_dir.iterdir()) != there:
            yield "the next start wrote into the data folder"

    def _unlink(self) -> None:
        self.database.unlink()

    def _remove_folder(self) -> None:
        shutil.rmtree(self.daemon.data_dir, ignore_errors=True)

    def _remove_wal(self) -> None:
        self.database.with_name(f"{DATABASE_NAME}-wal").unlink(missing_ok=True)

    def _remove_index(self) -> None:
        self.database.with_name(f"{DATABASE_NAME}-shm").unlink(missing_ok=True)

    def _move_folder(self) -> None:
        elsewhere = self.folder / "elsewhere"
        shutil.rmtree(elsewhere, ignore_errors=True)
        self.daemon.data_dir.rename(elsewhere)

    def _move_file(self) -> None:
        self.database.rename(self.folder / "elsewhere.db")

    def _replace(self) -> None:
        other = self.folder / "other.db"
        with closing(open_connection(other)) as connection:
            connection.execute("CREATE TABLE other (x)")
            connection.execute("PRAGMA journal_mode=DELETE")
        other.replace(self.database)

    def _await(self, event: str) -> None:
        until = time.monotonic() + (BLIND_S if self.broken else NOTICED_S)
        while event not in self.daemon.events():
            if time.monotonic() > until:
                if not self.broken:
                    self.violations.append(f"no {event} within {NOTICED_S:g} s: {self.daemon.log[-3:]}")
                return
            threading.Event().wait(0.01)

    def figures(self) -> Figures:
        return {"saves refused": self.refused, "slowest notice s": round(self.slowest_s, 2)}


SUITE = SearchSuite(
    name="removals",
    unit="removals",
    ci_n=14,
    torture_n=1_000,
    search=Removals,
    broken=["never look at the files", "begin empty"],
    control_n=14,
)
