"""Four daemons embed one backlog on a PostgreSQL server: no text twice, none missing after a kill.

A fifth one takes a part of it first, waits for its model and is killed: the others take that over.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from agentctx_postgresql.driver import Server
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql_tests.server import RunningServer, running_server
from agentctx_testing.drafts import keyless
from tests.durability.forked_daemon import DaemonEnded, ForkedDaemon
from tests.durability.suite import Outcome
from tests.durability.words import unfound_in

DAEMONS = 4
SAVED_AT_ONCE = 32
CONTROL_JOBS = 400
LOOK_S = 0.05
JOBS_A_SECOND = 50
"""Far fewer texts than the slowest machine embeds."""
LEAST_S = 120.0
LEASED = "SELECT count(*) FROM jobs WHERE daemon IS NOT NULL AND leased_until > 0"
OURS = "a text of the backlog"
"""Prefix of the texts; each daemon embeds others to calibrate itself."""
SABOTAGE = "claim what others have leased"


@dataclass
class Backlog:
    """One server, four daemons, and how often each text was sent to the model."""

    folder: Path
    server: RunningServer
    logging: str
    violations: list[str] = field(default_factory=list)
    daemons: list[ForkedDaemon] = field(default_factory=list)
    sent: list[Counter[str]] = field(default_factory=list)
    taken_over: int = 0

    async def run(self, jobs: int) -> None:
        victim = self._started(1, lease_s=5, broken="hang the provider")
        storage = await PostgresqlStorage.open(Server(url=self.server.url()), daemon="owner", migrates=False)
        try:
            await self._create_jobs(storage, jobs)
            await self._until_leased(storage)
            await asyncio.to_thread(victim[0].stop, signal.SIGKILL)
            self._started(DAEMONS, lease_s=120, broken=self.logging)
            await self._until_embedded(storage, jobs)
            self._end_daemons()
            await self._look(storage, jobs)
        except DaemonEnded as error:
            self.violations.append(f"a daemon does not start: {error}")
        finally:
            for daemon in self.daemons:
                daemon.end()
            await storage.close()

    def _started(self, number: int, *, lease_s: float, broken: str) -> list[ForkedDaemon]:
        config = (
            f'[storage]\nurl = "{self.server.url()}"\nsweep_interval_s = 0.5\n'
            f'[embedding]\nprovider = "fake"\n'
            f"[embedding.queue]\nlease_s = {lease_s:g}\ncapacity = 64\n"
        )
        started = []
        for _ in range(number):
            (folder := self.folder / f"daemon-{len(self.daemons)}").mkdir(parents=True)
            self.daemons.append(ForkedDaemon(folder))
            started.append(self.daemons[-1])
            started[-1].begin(config, broken=broken)
        for daemon in started:
            daemon.wait_until_ready()
        return started

    async def _create_jobs(self, storage: PostgresqlStorage, jobs: int) -> None:
        """Save texts that no daemon is notified of, then create jobs for all."""
        for start in range(0, jobs, SAVED_AT_ONCE):
            drafts = [
                keyless(f"{OURS} {number}") for number in range(start, min(start + SAVED_AT_ONCE, jobs))
            ]
            await asyncio.gather(*(storage.entries.save(draft, embed=False) for draft in drafts))
        await storage.upkeep.create_missing_jobs()
        # The victim's backfill may have created some of the jobs. Its model hangs, so none is done.
        if (pending := (await storage.jobs.depth()).pending) != jobs:
            self.violations.append(f"{pending} jobs for {jobs} texts")

    async def _until_leased(self, storage: PostgresqlStorage) -> None:
        async with asyncio.timeout(LEAST_S):
            while not self.taken_over:
                await asyncio.sleep(LOOK_S)
                self.taken_over = await storage.db.read(lambda conn: conn.fetchval(LEASED))

    async def _until_embedded(self, storage: PostgresqlStorage, jobs: int) -> None:
        try:
            async with asyncio.timeout(LEAST_S + jobs / JOBS_A_SECOND):
                while (await storage.jobs.depth()).pending:  # noqa: ASYNC110 - the server signals no event
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            left = (await storage.jobs.depth()).pending
            self.violations.append(f"{left} of {jobs} jobs are still pending")

    def _end_daemons(self) -> None:
        for daemon in self.daemons[1:]:
            if code := daemon.stop(signal.SIGTERM):
                self.violations.append(f"exit code {code}: {daemon.log[-2:]}")
            self.sent.append(Counter())
            for line in daemon.log:
                texts = line["texts"] if line.get("event") == "embedded" else ()
                self.sent[-1].update(text for text in texts if text.startswith(OURS))
        total = sum(self.sent, Counter[str]())
        if twice := [text for text, times in total.items() if times > 1]:
            self.violations.append(f"{len(twice)} texts were sent more than once, such as {twice[0]!r}")

    async def _look(self, storage: PostgresqlStorage, jobs: int) -> None:
        census = await storage.upkeep.census()
        if census.violations or census.vectors != jobs or census.chunks != jobs:
            self.violations.append(f"{jobs} texts: {census}")
        if (await storage.jobs.depth()).buried:
            self.violations.append("jobs were buried")
        self.violations += [
            f"space {fault.space}: {fault.problem}" for fault in await storage.upkeep.check_vectors()
        ]
        self.violations += await unfound_in(storage)


class SharedQueueSuite:
    name = "shared_queue"
    unit = "jobs"
    smoke_n = 200
    ci_n = 50_000
    torture_n = 50_000

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        backlog = _embedded(n, folder, "log what is embedded")
        figures: dict[str, float | str] = {
            "most embedded by one daemon": float(max((each.total() for each in backlog.sent), default=0)),
            "taken over from a killed daemon": backlog.taken_over,
        }
        return Outcome(n, tuple(backlog.violations), figures)

    def control(self, *, seed: int, folder: Path) -> Outcome:
        backlog = _embedded(CONTROL_JOBS, folder, SABOTAGE)
        return Outcome(CONTROL_JOBS, tuple(backlog.violations))


def _embedded(jobs: int, folder: Path, logging: str) -> Backlog:
    with running_server(durable=True) as server:
        server.sql("CREATE EXTENSION vector")
        backlog = Backlog(folder, server, logging)
        asyncio.run(backlog.run(jobs))
    return backlog


SUITE = SharedQueueSuite()
