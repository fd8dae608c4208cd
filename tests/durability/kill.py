"""kill -9: eight writers, and a daemon killed at random points; everything is inspected each time."""

from __future__ import annotations

import random
import signal
import threading
from dataclasses import dataclass

from tests.durability import sabotage
from tests.durability.inspection import inspect, inspect_copy
from tests.durability.search import Search, SearchSuite
from tests.durability.suite import Figures
from tests.durability.writers import Acknowledged, Writer

WRITERS = 8
LONGEST_CYCLE_S = 20.0
CONTROL_CYCLES = 6
QUICK = '[embedding]\nprovider = "fake"\n'


@dataclass(frozen=True)
class Death:
    """How one daemon is killed."""

    kind: str  # "writing", "starting" or "stopping"
    acknowledgements: int
    """Acknowledgements to wait for first."""
    delay_s: float
    """Seconds from then, or from the start or the SIGTERM, to the SIGKILL."""


@dataclass
class Kills(Search):
    """Consecutive kills in one folder; the last daemon finishes its work."""

    acknowledged: int = 0
    entries: int = 0
    held_back: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.writers = [Writer(number, self.seed, self.daemon.socket) for number in range(WRITERS)]

    def attempt(self) -> None:
        self._cycle(chosen_death(self.rng), chosen_config(self.rng))

    def _cycle(self, death: Death, config: str) -> None:
        self.daemon.begin(config, broken=self.broken)
        if death.kind == "starting":
            self.daemon.wait_ready_at_most(death.delay_s)
            self.daemon.stop(signal.SIGKILL)
        else:
            self.daemon.wait_until_ready()
            self._write_until(death)
        self.done += 1
        self._look(f"kill {self.done} ({death.kind})")

    def _write_until(self, death: Death) -> None:
        acknowledged = Acknowledged(death.acknowledgements)
        stop = threading.Event()
        threads = [threading.Thread(target=writer.work, args=(acknowledged, stop)) for writer in self.writers]
        for thread in threads:
            thread.start()
        acknowledged.reached.wait(LONGEST_CYCLE_S)
        if not self.daemon.is_running:
            self.violations.append(f"kill {self.done + 1}: it had already exited: {self.daemon.log[-3:]}")
        if death.kind == "stopping":
            self.daemon.send_signal(signal.SIGTERM)
        pause(death.delay_s)
        self.daemon.stop(signal.SIGKILL)
        stop.set()
        for thread in threads:
            thread.join()
        self.acknowledged += acknowledged.count

    def _look(self, when: str) -> None:
        if not (self.daemon.data_dir / "agentctx.db").exists():
            return  # the first daemon did not get that far
        found = inspect_copy(self.daemon.data_dir, self.folder / "copy")
        self.entries, self.held_back = len(found.stored), max(self.held_back, found.depth.pending)
        self.note(when, found.violations(writer.ledger for writer in self.writers))
        for writer in self.writers:
            self.note(when, writer.violations)

    def finish(self) -> None:
        """Check that the work completes: every chunk has its vector, and the last exit is clean.

        Undoing a revocation cuts its entries again in the background, maybe after the queue was first empty:
        what the inspection then cuts itself, a second daemon embeds.
        """
        self._embed_all()
        found = inspect(self.daemon.data_dir)
        if found.depth.pending:
            self._embed_all()
            found = inspect(self.daemon.data_dir)
        self.note("the end", found.violations(writer.ledger for writer in self.writers))
        if found.census.vectors != found.census.chunks:
            self.violations.append(f"the end: {found.census.vectors} vectors, {found.census.chunks} chunks")

    def _embed_all(self) -> None:
        self.daemon.start(QUICK, broken=self.broken)
        with self.daemon.client() as client:
            for writer in self.writers:
                writer.settle(client)
            left = client.drain(timeout_s=30.0)
        if left.pending or left.buried:
            self.violations.append(f"the end: {left.pending} jobs pending, {left.buried} buried")
        if code := self.daemon.stop(signal.SIGTERM):
            self.violations.append(f"the end: exit code {code}")

    def figures(self) -> Figures:
        return {
            "acknowledged writes": self.acknowledged,
            "requests sent again": sum(writer.retries for writer in self.writers),
            "most jobs pending at a kill": float(self.held_back),
            "entries at the end": float(self.entries),
        }


def chosen_death(rng: random.Random) -> Death:
    """Choose the moment of a kill, mostly during writes: up to a hundred acknowledgements after the start."""
    kind = rng.choices(["writing", "starting", "stopping"], [80, 10, 10])[0]
    longest_s = {"writing": 0.02, "starting": 0.2, "stopping": 0.05}[kind]
    return Death(kind, rng.randint(1, 100), rng.uniform(0, longest_s))


def chosen_config(rng: random.Random) -> str:
    """Choose how fast texts are embedded, whether files are tidied constantly, and words are in memory."""
    return (
        f"{QUICK}[embedding.queue]\nbatch_size = {rng.choice([1, 8, 32])}\n"
        f"capacity = {rng.choice([8, 1024])}\n"
        f"[storage]\nsweep_interval_s = {rng.choice([0.02, 60.0])}\n"
        f"[words]\nmemory_mb = {rng.choice([0, 64])}\n"
    )


def pause(seconds: float) -> None:
    """Sleep until the moment of the kill, which the seed chose: no event marks it."""
    threading.Event().wait(seconds)


SUITE = SearchSuite(
    name="kill",
    unit="kills",
    smoke_n=3,
    ci_n=50,
    torture_n=10_000,
    search=Kills,
    broken=tuple(sabotage.BROKEN),
    control_n=CONTROL_CYCLES,
)
