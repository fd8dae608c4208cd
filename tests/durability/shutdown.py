"""Shutdown: SIGTERM ends a daemon in time despite pending jobs and a hanging provider.

A second SIGTERM ends it immediately. Nothing is lost.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field

from agentctx import wire
from agentctx.errors import AgentctxError
from tests.durability.forked_daemon import DaemonEnded
from tests.durability.inspection import inspect
from tests.durability.kill import QUICK, pause
from tests.durability.ledger import Ledger
from tests.durability.search import Search, SearchSuite
from tests.durability.suite import Figures

JOBS = 10_000
"""Minimum number of pending jobs at every stop of a run."""
LONG = "The kettle has to be descaled on the first Monday of every month, and nobody ever does it. " * 2_500
"""A text that creates some 350 jobs."""
MANY, FEW = 35, 1
"""Long texts saved before the first stop, and before each later one."""
EXIT_S = 5.0
AT_ONCE_S = 1.0
HANGING = "hang the provider"


@dataclass
class Stops(Search):
    """Daemons on one folder, each stopped with more pending jobs than the previous one."""

    ledger: Ledger = field(default_factory=Ledger)
    pending: int = 0
    slowest_s: float = 0.0
    slowest_second_s: float = 0.0
    failures = (AgentctxError, DaemonEnded)

    def attempt(self) -> None:
        """Stop a daemon, every other time with a second SIGTERM."""
        self.daemon.start(QUICK, broken=self.broken or HANGING)
        self._save(FEW if self.ledger.live or self.broken else MANY)
        began = time.monotonic()
        self.daemon.send_signal(signal.SIGTERM)
        if self.done % 2 == 1:
            pause(self.rng.uniform(0, 0.2))
            again = time.monotonic()
            code = self.daemon.stop(signal.SIGTERM)
            self.slowest_second_s = max(self.slowest_second_s, time.monotonic() - again)
        else:
            code = self.daemon.wait()
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        self.done += 1
        self._judge(code)

    def _save(self, count: int) -> None:
        texts = [f"stop {self.done} text {number} {LONG}".strip() for number in range(count)]
        requests = [wire.SaveRequest(collection="observation", session="s", content=text) for text in texts]
        with self.daemon.client() as client:
            for text, result in zip(texts, client.save_all(requests), strict=True):
                if isinstance(result, AgentctxError):
                    raise result
                self.ledger.created(result.id, result.version, text)

    def _judge(self, code: int) -> None:
        when = f"stop {self.done}"
        if code:
            self.violations.append(f"{when}: exit code {code}: {self.daemon.log[-2:]}")
        if self.daemon.socket.exists():
            self.violations.append(f"{when}: the socket is still there")
        if self.slowest_s > EXIT_S or self.slowest_second_s > AT_ONCE_S:
            self.violations.append(
                f"{when}: took {self.slowest_s:.1f} s, {self.slowest_second_s:.1f} s again"
            )
        found = inspect(self.daemon.data_dir)
        self.note(when, found.violations([self.ledger]))
        self.pending = found.depth.pending
        if not self.broken and not JOBS <= self.pending == found.census.chunks:
            self.violations.append(f"{when}: {self.pending} jobs pending for {found.census.chunks} chunks")

    def figures(self) -> Figures:
        return {
            "jobs pending at the last stop": float(self.pending),
            "slowest stop s": self.slowest_s,
            "slowest exit after a second SIGTERM s": self.slowest_second_s,
        }


SUITE = SearchSuite(
    name="shutdown",
    unit="stops",
    ci_n=4,
    torture_n=1_000,
    search=Stops,
    broken=["forget the queue at the end"],
    control_n=4,
)
