"""Shutdown: SIGTERM ends a daemon in time despite pending jobs and a hanging provider.

A second SIGTERM ends it immediately. Nothing is lost.
"""

from __future__ import annotations

import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from agentctx import wire
from agentctx.errors import AgentctxError
from tests.durability.forked_daemon import DaemonEnded, ForkedDaemon
from tests.durability.inspection import inspect
from tests.durability.kill import QUICK, pause
from tests.durability.ledger import Ledger
from tests.durability.suite import Outcome

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
class Stops:
    """Daemons on one folder, each stopped with more pending jobs than the previous one."""

    seed: int
    folder: Path
    broken: str = HANGING
    first: int = MANY
    ledger: Ledger = field(default_factory=Ledger)
    violations: list[str] = field(default_factory=list)
    stops: int = 0
    pending: int = 0
    slowest_s: float = 0.0
    slowest_second_s: float = 0.0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.daemon = ForkedDaemon(self.folder)

    def run(self, n: int) -> None:
        try:
            while self.stops < n and not self.violations:
                self._stop_one(twice=self.stops % 2 == 1)
        except (AgentctxError, DaemonEnded) as error:
            self.violations.append(f"stop {self.stops + 1}: {error!r}")
        finally:
            self.daemon.end()

    def _stop_one(self, *, twice: bool) -> None:
        self.daemon.start(QUICK, broken=self.broken)
        self._save(FEW if self.ledger.live else self.first)
        began = time.monotonic()
        self.daemon.send_signal(signal.SIGTERM)
        if twice:
            pause(self.rng.uniform(0, 0.2))
            again = time.monotonic()
            code = self.daemon.stop(signal.SIGTERM)
            self.slowest_second_s = max(self.slowest_second_s, time.monotonic() - again)
        else:
            code = self.daemon.wait()
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        self.stops += 1
        self._judge(code)

    def _save(self, count: int) -> None:
        texts = [f"stop {self.stops} text {number} {LONG}".strip() for number in range(count)]
        requests = [wire.SaveRequest(collection="observation", session="s", content=text) for text in texts]
        with self.daemon.client() as client:
            for text, result in zip(texts, client.save_all(requests), strict=True):
                if isinstance(result, AgentctxError):
                    raise result
                self.ledger.created(result.id, result.version, text)

    def _judge(self, code: int) -> None:
        when = f"stop {self.stops}"
        if code:
            self.violations.append(f"{when}: exit code {code}: {self.daemon.log[-2:]}")
        if self.daemon.socket.exists():
            self.violations.append(f"{when}: the socket is still there")
        if self.slowest_s > EXIT_S or self.slowest_second_s > AT_ONCE_S:
            self.violations.append(
                f"{when}: took {self.slowest_s:.1f} s, {self.slowest_second_s:.1f} s again"
            )
        found = inspect(self.daemon.data_dir)
        self.violations += [f"{when}: {problem}" for problem in found.violations([self.ledger])]
        self.pending = found.depth.pending
        if self.broken == HANGING and not JOBS <= self.pending == found.census.chunks:
            self.violations.append(f"{when}: {self.pending} jobs pending for {found.census.chunks} chunks")


class ShutdownSuite:
    name = "shutdown"
    unit = "stops"
    ci_n = 4
    torture_n = 1_000

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        stops = Stops(seed, folder)
        stops.run(n)
        figures: dict[str, float | str] = {
            "jobs pending at the last stop": float(stops.pending),
            "slowest stop s": stops.slowest_s,
            "slowest exit after a second SIGTERM s": stops.slowest_second_s,
        }
        return Outcome(stops.stops, tuple(stops.violations), figures)

    def control(self, *, seed: int, folder: Path) -> Outcome:
        stops = Stops(seed, folder, broken="forget the queue at the end", first=FEW)
        stops.run(self.ci_n)
        return Outcome(stops.stops, tuple(stops.violations))


SUITE = ShutdownSuite()
