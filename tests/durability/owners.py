"""One owner at a time: races of two daemons, sockets left by a kill, sockets removed under a daemon."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

from agentctx import Client
from tests.durability.forked_daemon import ForkedDaemon
from tests.durability.inspection import inspect
from tests.durability.kill import QUICK
from tests.durability.ledger import Ledger
from tests.durability.search import Search, SearchSuite
from tests.durability.suite import Figures

REBIND_S = 20.0
"""Seconds a client without a socket keeps trying: the daemon checks for its socket every few seconds."""


@dataclass
class Races(Search):
    """Daemons that compete for a data folder and usually for a socket."""

    ledger: Ledger = field(default_factory=Ledger)
    removed: int = 0
    stale: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rivals = [ForkedDaemon(self.folder), ForkedDaemon(self.folder, socket=self.folder / "b.sock")]
        self.daemons += self.rivals

    def attempt(self) -> None:
        self._race(self.rivals[self.rng.random() < 0.5])

    def finish(self) -> None:
        self.note("the end", inspect(self.daemon.data_dir).violations([self.ledger]))

    def _race(self, rival: ForkedDaemon) -> None:
        self.stale += self.daemon.socket.is_socket()
        both = [self.daemon, rival]
        self.rng.shuffle(both)
        for daemon in both:
            daemon.begin(QUICK, broken=self.broken)
        for daemon in both:
            daemon.wait_ready_or_ended()
        self.done += 1
        owners = [daemon for daemon in both if "ready" in daemon.events()]
        if len(owners) != 1:
            logs = [daemon.log[-1:] for daemon in both]
            self.violations.append(f"race {self.done}: {len(owners)} owners of one folder: {logs}")
            return
        (owner,) = owners
        (loser,) = (daemon for daemon in both if daemon is not owner)
        if (code := loser.wait()) != 1 or loser.log[-1].get("code") != "already_running":
            self.violations.append(f"race {self.done}: the other ended with {code}: {loser.log[-1:]}")
        self._use(owner)

    def _use(self, owner: ForkedDaemon) -> None:
        with owner.client(start_timeout_s=REBIND_S) as client:
            self._save(client, "after the race")
            if self.done % 10 == 0:
                owner.socket.unlink()
                self.removed += 1
        if self.done % 10 == 0:
            with owner.client(start_timeout_s=REBIND_S) as client:
                self._save(client, "after the socket was removed")
        if self.rng.random() < 0.7:
            owner.stop(signal.SIGKILL)
        elif code := owner.stop():
            self.violations.append(f"race {self.done}: exit code {code}")
        elif owner.socket.exists():
            self.violations.append(f"race {self.done}: the socket is still there")

    def _save(self, client: Client, what: str) -> None:
        text = f"race {self.done} {what}"
        saved = client.save_observation("s", text)
        self.ledger.created(saved.id, saved.version, text)

    def figures(self) -> Figures:
        return {"stale sockets replaced": self.stale, "removed sockets bound again": self.removed}


SUITE = SearchSuite(
    name="owners",
    unit="races",
    ci_n=20,
    torture_n=1_000,
    search=Races,
    broken=["lock nothing"],
    control_n=20,
)
