"""kill -9 of daemons, of backends of a PostgreSQL server, and of the server, while clients save.

A client whose daemon is gone goes to another one, or waits until it is back; one whose daemon says that the
database is away asks again. After each round everything is settled and looked at.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from agentctx.errors import AgentctxError, DaemonUnreachable, DeadlineExceeded, StorageFailed, Unavailable
from agentctx_postgresql.driver import Server
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql_tests.server import RunningServer, running_server
from tests.durability import sabotage
from tests.durability.forked_daemon import ForkedDaemon
from tests.durability.inspection import Inspection, examine
from tests.durability.kill import pause
from tests.durability.search import Search, SearchSuite
from tests.durability.suite import Figures, Outcome
from tests.durability.writers import Acknowledged, Writer

DAEMONS = 3
WRITERS = 8
MOST_KILLS = 8
"""Kills per round, before everything is inspected."""
CONTROL_KILLS = 30
WAIT_S = 60.0
REFUSALS = (StorageFailed, DeadlineExceeded, Unavailable)
"""Errors a daemon may return while its server is down."""
CONFIG = 'storage.url = "{}"\nembedding.provider = "fake"\n'

SESSIONS = "FROM pg_stat_activity WHERE application_name = 'agentctx' AND pid <> pg_backend_pid()"
TERMINATE = f"SELECT count(pg_terminate_backend(pid)) {SESSIONS}"
ONE_SESSION = f"SELECT pid {SESSIONS} ORDER BY state = 'active' DESC, random() LIMIT 1"
RECOVERIES = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"
"""Each recovery starts another checkpointer."""
OUTLIVED = f"""SET statement_timeout = '{WAIT_S:.0f}s';
    DO $$ DECLARE since timestamptz := clock_timestamp(); BEGIN
    WHILE EXISTS (SELECT 1 {SESSIONS} AND xact_start < since) LOOP
      PERFORM pg_sleep(0.01), pg_stat_clear_snapshot(); END LOOP; END $$"""
"""Returns once no transaction of a killed daemon is running."""


@dataclass
class ServedKills(Search):
    """Consecutive kills around one server."""

    kills: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    entries: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.daemons = [self._daemon(number) for number in range(DAEMONS)]
        self.homes = [self.daemons[number % DAEMONS] for number in range(WRITERS)]
        self.writers = [
            Writer(number, self.seed, home.socket, refusals=REFUSALS)
            for number, home in enumerate(self.homes)
        ]
        self.threads: dict[int, threading.Thread] = {}

    def run(self, n: int) -> Outcome:
        """Kill n processes, then let the daemons finish their work."""
        with running_server(durable=True) as self.server:
            self.server.sql("CREATE EXTENSION vector")
            self.server.sql("CREATE EXTENSION amcheck")  # for the inspection
            return super().run(n)

    def _daemon(self, number: int) -> ForkedDaemon:
        folder = self.folder / f"daemon-{number}"
        folder.mkdir(parents=True)
        return ForkedDaemon(folder)

    def attempt(self) -> None:
        self._start_missing()
        for writer, home in zip(self.writers, self.homes, strict=True):
            writer.path = home.socket
        acknowledged, stop = Acknowledged(self.rng.randint(1, 25)), threading.Event()
        self._resume(acknowledged, stop)
        for _ in range(min(self.rng.randint(1, MOST_KILLS), self.wanted - self.done)):
            if not acknowledged.reached.wait(WAIT_S):
                self._note_kill(
                    [f"nothing was saved for {WAIT_S:g} s: {[each.log[-2:] for each in self.daemons]}"]
                )
                break
            kind = chosen_kind(self.rng)
            pause(self.rng.uniform(0, 0.02))
            {
                "daemon": self._kill_daemon,
                "backend": self._kill_backend,
                "sessions": lambda: self.server.sql(TERMINATE),
                "server": self._kill_server,
                "server and daemons": self._kill_all,
            }[kind]()
            self.kills[kind] += 1
            self.done += 1
            acknowledged.expect(self.rng.randint(1, 25))
            self._resume(acknowledged, stop)
        self._await(acknowledged)
        stop.set()
        for thread in self.threads.values():
            thread.join()
        self.acknowledged += acknowledged.count
        self._look()

    def _await(self, acknowledged: Acknowledged) -> None:
        if not acknowledged.reached.wait(WAIT_S):
            self._note_kill([f"nothing is saved: {[each.log[-2:] for each in self.daemons]}"])

    def _resume(self, acknowledged: Acknowledged, stop: threading.Event) -> None:
        """Start every writer that is idle."""
        for number, writer in enumerate(self.writers):
            if number in self.threads and self.threads[number].is_alive():
                continue
            self.threads[number] = threading.Thread(target=writer.work, args=(acknowledged, stop))
            self.threads[number].start()

    def _start_missing(self) -> None:
        missing = [daemon for daemon in self.daemons if not daemon.is_running]
        for daemon in missing:
            daemon.begin(chosen_config(self.rng, self.server), broken=self.broken)
        for daemon in missing:
            daemon.wait_until_ready()

    def _kill_daemon(self) -> None:
        """Kill a daemon; its clients move to another or wait until it is back."""
        running = [daemon for daemon in self.daemons if daemon.is_running]
        victim = self.rng.choice(running)
        others = [daemon for daemon in running if daemon is not victim]
        victim.stop(signal.SIGKILL)
        moved = [number for number, writer in enumerate(self.writers) if writer.path == victim.socket]
        for number in moved:
            self.threads[number].join()
        self.server.sql(OUTLIVED)
        if not others or self.rng.random() < 0.5:
            self._start_missing()
            return
        for number in moved:
            self.writers[number].path = self.rng.choice(others).socket

    def _kill_backend(self) -> None:
        """Kill a backend: the server assumes corrupt memory, ends all other backends and recovers."""
        before, pid = self.server.sql(RECOVERIES), self.server.sql(ONE_SESSION)
        with suppress(ProcessLookupError, ValueError):  # it has exited, or no daemon has a session
            os.kill(int(pid), signal.SIGKILL)
            if not within(WAIT_S, lambda: self.server.sql_or_none(RECOVERIES) not in {None, before}):
                self._note_kill(["the server does not recover"])

    def _kill_server(self) -> None:
        self.server.kill()
        pause(self.rng.choice([0.0, 0.1, 0.5]))  # saves are refused meanwhile
        self.server.start()

    def _kill_all(self) -> None:
        self.server.kill()
        for daemon in self.daemons:
            daemon.end()
        for thread in self.threads.values():
            thread.join()
        self.server.start()
        self._start_missing()

    def _look(self) -> None:
        """Let every writer settle its last request, then compare the database with what was acknowledged."""
        self._start_missing()
        for writer, home in zip(self.writers, self.homes, strict=True):
            self._settle(writer, home)
            self._note_kill(writer.violations)
        found = self._inspected()
        self.entries = len(found.stored)
        self._note_kill(found.violations(writer.ledger for writer in self.writers))

    def _settle(self, writer: Writer, home: ForkedDaemon) -> None:
        def settled() -> bool:
            with suppress(*REFUSALS), home.client() as client:
                writer.settle(client)
                client.list(limit=1)  # an idle writer proves nothing
                return True
            return False

        try:
            if not within(WAIT_S, settled):
                self._note_kill([f"a daemon does not recover: {home.log[-3:]}"])
        except DaemonUnreachable as error:
            self._note_kill([f"a daemon exited: {error.message} {home.log[-3:]}"])
        except AgentctxError as error:
            self._note_kill([f"{type(error).__name__}: {error.message}"])

    def _inspected(self) -> Inspection:
        return asyncio.run(inspect_server(self.server.url()))

    def finish(self) -> None:
        """Check that the work completes: every chunk has its vector, and all exits are clean."""
        self._start_missing()
        self._stop(self.daemons)  # a daemon does not embed what another has leased or delayed
        last = self.daemons[0].start(CONFIG.format(self.server.url()), broken=self.broken)
        with last.client() as client:
            left = client.drain(timeout_s=WAIT_S)
        if left.pending or left.buried:
            self._note_kill([f"the end: {left.pending} jobs pending, {left.buried} buried"])
        self._stop([last])
        found = self._inspected()
        self._note_kill(found.violations(writer.ledger for writer in self.writers))
        if found.census.vectors != found.census.chunks:
            self._note_kill([f"the end: {found.census.vectors} vectors, {found.census.chunks} chunks"])

    def _stop(self, daemons: Iterable[ForkedDaemon]) -> None:
        for daemon in daemons:
            if code := daemon.stop(signal.SIGTERM):
                self._note_kill([f"the end: exit code {code}: {daemon.log[-3:]}"])

    def _note_kill(self, problems: Iterable[str]) -> None:
        self.note(f"after kill {self.done}", problems)

    def figures(self) -> Figures:
        return {
            "acknowledged writes": self.acknowledged,
            "refused writes": sum(writer.refused for writer in self.writers),
            "requests sent again": sum(writer.retries for writer in self.writers),
            "entries at the end": float(self.entries),
            **{f"kills of {kind}": self.kills[kind] for kind in sorted(self.kills)},
        }


async def inspect_server(url: str) -> Inspection:
    """Inspect everything in a database that daemons have open."""
    storage = await PostgresqlStorage.open(Server(url=url), daemon="inspector", migrates=False)
    try:
        found = await examine(storage)
        await storage.jobs.release_leases()  # on the jobs that settling revocations made
        return found
    finally:
        await storage.close()


def chosen_kind(rng: random.Random) -> str:
    """Choose what to kill, mostly daemons: the rest takes longer and tests the server as much as agentctx."""
    return rng.choices(["daemon", "backend", "sessions", "server", "server and daemons"], [8, 4, 4, 3, 1])[0]


def chosen_config(rng: random.Random, server: RunningServer) -> str:
    """Choose how fast texts are embedded during the saves, and whether files are tidied constantly."""
    return (
        f"{CONFIG.format(server.url())}storage.sweep_interval_s = {rng.choice([0.05, 60.0])}\n"
        f"embedding.queue.lease_s = 5\nembedding.queue.batch_size = {rng.choice([1, 8, 32])}\n"
        f"embedding.queue.capacity = {rng.choice([8, 1024])}\n"
    )


def within(seconds: float, happens: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > deadline:
            return False
        pause(0.05)
    return True


SUITE = SearchSuite(
    name="postgresql",
    unit="kills",
    smoke_n=3,
    ci_n=50,
    torture_n=2_000,
    search=ServedKills,
    broken=tuple(sabotage.BROKEN_SERVED),
    control_n=CONTROL_KILLS,
)
