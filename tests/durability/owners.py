"""One owner at a time: races of two daemons, sockets left by a kill, sockets removed under a daemon."""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass, field
from pathlib import Path

from agentctx import Client
from tests.durability.forked_daemon import ForkedDaemon
from tests.durability.inspection import inspect
from tests.durability.kill import QUICK
from tests.durability.ledger import Ledger
from tests.durability.suite import Outcome

REBIND_S = 20.0
"""Seconds a client without a socket keeps trying: the daemon checks for its socket every few seconds."""


@dataclass
class Races:
    """Daemons that compete for a data folder and usually for a socket."""

    seed: int
    folder: Path
    broken: str = ""
    ledger: Ledger = field(default_factory=Ledger)
    violations: list[str] = field(default_factory=list)
    races: int = 0
    removed: int = 0
    stale: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.first = ForkedDaemon(self.folder)
        self.rivals = [ForkedDaemon(self.folder), ForkedDaemon(self.folder, socket=self.folder / "b.sock")]

    def run(self, n: int) -> None:
        try:
            while self.races < n and not self.violations:
                self._race(self.rivals[self.rng.random() < 0.5])
        finally:
            for daemon in (self.first, *self.rivals):
                daemon.end()
        if self.violations:
            return
        found = inspect(self.first.data_dir)
        self.violations += [f"the end: {problem}" for problem in found.violations([self.ledger])]

    def _race(self, rival: ForkedDaemon) -> None:
        self.stale += self.first.socket.is_socket()
        both = [self.first, rival]
        self.rng.shuffle(both)
        for daemon in both:
            daemon.begin(QUICK, broken=self.broken)
        for daemon in both:
            daemon.wait_ready_or_ended()
        self.races += 1
        owners = [daemon for daemon in both if "ready" in daemon.events()]
        if len(owners) != 1:
            logs = [daemon.log[-1:] for daemon in both]
            self.violations.append(f"race {self.races}: {len(owners)} owners of one folder: {logs}")
            return
        (owner,) = owners
        (loser,) = (daemon for daemon in both if daemon is not owner)
        if (code := loser.wait()) != 1 or loser.log[-1].get("code") != "already_running":
            self.violations.append(f"race {self.races}: the other ended with {code}: {loser.log[-1:]}")
        self._use(owner)

    def _use(self, owner: ForkedDaemon) -> None:
        with owner.client(start_timeout_s=REBIND_S) as client:
            self._save(client, "after the race")
            if self.races % 10 == 0:
                owner.socket.unlink()
                self.removed += 1
        if self.races % 10 == 0:
            with owner.client(start_timeout_s=REBIND_S) as client:
                self._save(client, "after the socket was removed")
        if self.rng.random() < 0.7:
            owner.stop(signal.SIGKILL)
        elif code := owner.stop():
            self.violations.append(f"race {self.races}: exit code {code}")
        elif owner.socket.exists():
            self.violations.append(f"race {self.races}: the socket is still there")

    def _save(self, client: Client, what: str) -> None:
        text = f"race {self.races} {what}"
        saved = client.save_observation("s", text)
        self.ledger.created(saved.id, saved.version, text)


class OwnersSuite:
    name = "owners"
    unit = "races"
    ci_n = 20
    torture_n = 1_000

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        races = Races(seed, folder)
        races.run(n)
        figures = {"stale sockets replaced": races.stale, "removed sockets bound again": races.removed}
        return Outcome(races.races, tuple(races.violations), figures)

    def control(self, *, seed: int, folder: Path) -> Outcome:
        races = Races(seed, folder, broken="lock nothing")
        races.run(self.ci_n)
        return Outcome(races.races, tuple(races.violations))


SUITE = OwnersSuite()
