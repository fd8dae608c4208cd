"""The queue with backoff, lease and breaker, as a deterministic simulation: one seed is one history.

The real `EmbeddingQueue` runs on a clock that only the simulation moves, against a provider and a storage
that fail by chance; days pass in milliseconds. After every step nothing may be missing.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from structlog.testing import capture_logs

from agentctx.embedding.queue import diagnosis, retry
from agentctx.embedding.queue.breaker import DoublingPause
from agentctx.embedding.queue.retry import PostponedJobs, RetryVerdict
from agentctx.errors import Disposition, ProviderFailed
from agentctx.storage.vectors import Vectors
from tests.durability.suite import Outcome, all_noticed
from tests.embedding.queue.manual_timer import START
from tests.embedding.queue.test_simulation import World

MS_PER_HOUR = 3_600_000
STEPS = 15
PROBES_PER_HOUR = 130
PROBES_AT_FIRST = 10
"""Seconds until the breaker is open, while its pauses are still short."""
SAVES_IN_OUTAGE = 30
ACTIONS = [
    "save",
    "save",
    "save",
    "poison",
    "delete",
    "edit",
    "hang",
    "crash",
    "stop",
    "wait",
    "outage",
    "leap",
]
CONTROL_SEEDS = 40
REPEATED = 10


class SimulatedWorld(World):
    """Adds outages of hours and clock jumps, and checks the invariants after each step."""

    def __init__(self, seed: int) -> None:
        self.is_down = False
        self.violations: list[str] = []
        super().__init__(seed)

    def _answer(self, batch: Sequence[str]) -> Vectors:
        if self.is_down:
            raise ProviderFailed("down", disposition=Disposition.RETRY)
        return super()._answer(batch)

    async def live(self) -> None:
        """Run one history. One that never ends is a violation as well."""
        try:
            for _ in range(STEPS):
                await self.step(self.rng.choice(ACTIONS))
            await self.recover()
            self.check("the end")
            self.violations += [f"the end: job {job.id} is still pending" for job in self.storage.pending]
        except AssertionError as error:
            self.violations.append(f"stuck: {error}")
        finally:
            await self.queue.stop(timeout=0)

    async def step(self, action: str) -> None:
        if action == "outage":
            await self.outage(hours=self.rng.choice([1, 1, 1, 6]))
        elif action == "leap":
            await self.timer.advance(self.rng.choice([MS_PER_HOUR, 48 * MS_PER_HOUR]))
        else:
            await self.act(action)
        self.check(action)

    async def outage(self, hours: int) -> None:
        """Fail every call for a while during saves; the provider must not be called more than necessary."""
        self.is_down = True
        before = len(self.provider.calls)
        for number in range(SAVES_IN_OUTAGE):
            self.save(f"saved in the outage {len(self.expected)} {number}")
            await self.timer.advance(MS_PER_HOUR // SAVES_IN_OUTAGE)
        await self.timer.advance((hours - 1) * MS_PER_HOUR)
        self.is_down = False
        probes, most = len(self.provider.calls) - before, PROBES_PER_HOUR * hours + PROBES_AT_FIRST
        if probes > most:
            self.violations.append(f"{probes} calls in an outage of {hours} h, {most} are enough")

    def check(self, after: str) -> None:
        """Check that no job is lost or given up needlessly, and that calls do not overlap."""
        there = self.storage.rows.keys() | self.storage.vectors.keys()
        wrong = [f"job {number} is lost" for number in sorted(self.expected.keys() - there)]
        wrong += [f"job {number} came from nowhere" for number in sorted(there - self.expected.keys())]
        buried = [row.job.text for row in self.storage.buried_jobs]
        wrong += [f"buried without need: {text!r}" for text in buried if not self.is_guilty(text)]
        if self.provider.max_concurrent > 1:
            wrong.append(f"{self.provider.max_concurrent} calls at once")
        if self.queue.task is not None and self.queue.task.done() and self.queue.task.exception():
            wrong.append(f"the worker died: {self.queue.task.exception()!r}")
        self.violations += [f"after {after}: {problem}" for problem in wrong]

    def digest(self) -> str:
        """Return a digest of everything that happened; two runs of a seed have the same one."""
        happened = (self.provider.calls, self.storage.operations, self.timer.now(), sorted(self.expected))
        return hashlib.sha256(repr(happened).encode()).hexdigest()


@dataclass(frozen=True)
class History:
    """The outcome of one seed."""

    violations: tuple[str, ...]
    digest: str
    simulated_s: float
    calls: int


class SimulationSuite:
    name = "simulation"
    unit = "seeds"
    ci_n = 60
    torture_n = 20_000

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        """Run seeds from `seed * n` on; every tenth runs twice and must repeat itself."""
        violations: list[str] = []
        began, simulated_s, calls = time.monotonic(), 0.0, 0
        for number in range(seed * n, (seed + 1) * n):
            history = simulated(number)
            simulated_s, calls = simulated_s + history.simulated_s, calls + history.calls
            violations += [f"history {number}: {problem}" for problem in history.violations]
            if number % REPEATED == 0 and simulated(number).digest != history.digest:
                violations.append(f"history {number} does not repeat itself")
        figures: dict[str, float | str] = {
            "provider calls": calls,
            "simulated hours": round(simulated_s / 3600),
            "times faster than real time": simulated_s / (time.monotonic() - began),
        }
        return Outcome(n, tuple(violations), figures)

    def control(self, *, seed: int, folder: Path) -> Outcome:
        def search(name: str, _: Path) -> Outcome:
            with MUTANTS[name]():
                return Outcome(CONTROL_SEEDS, _first_problems(seed))

        return all_noticed(MUTANTS, folder, search)


def simulated(number: int) -> History:
    """Run the history of a seed."""

    async def live() -> SimulatedWorld:
        world = SimulatedWorld(number)
        await world.live()
        return world

    with capture_logs():
        world = asyncio.run(live())
    passed_s = (world.timer.now() - START) / 1000
    return History(tuple(world.violations), world.digest(), passed_s, len(world.provider.calls))


def _first_problems(seed: int) -> tuple[str, ...]:
    histories = (simulated(seed + number) for number in range(CONTROL_SEEDS))
    return next((history.violations for history in histories if history.violations), ())


Mutate = Callable[[], Any]


def _deciding(change: Callable[[Sequence[Any], RetryVerdict], RetryVerdict]) -> Mutate:
    @contextmanager
    def mutated() -> Iterator[None]:
        decide = retry.decide

        def wrongly(jobs: Sequence[Any], *arguments: Any, **named: Any) -> RetryVerdict:
            return change(jobs, decide(jobs, *arguments, **named))

        with patch.object(diagnosis, "decide", wrongly):
            yield

    return mutated


def _drop_one(_jobs: Sequence[Any], verdict: RetryVerdict) -> RetryVerdict:
    """Run a retry that forgets a job: it stays in memory and is never sent."""
    kept = tuple(PostponedJobs(group.jobs[1:], group.not_before) for group in verdict.postpone)
    return replace(verdict, postpone=kept)


def _bury_instead(jobs: Sequence[Any], verdict: RetryVerdict) -> RetryVerdict:
    """Run a build that blames the texts for a fault of the provider."""
    return RetryVerdict(bury=tuple(jobs)) if verdict.fault or verdict.postpone else verdict


def _never_wait_longer() -> Any:
    return patch.object(DoublingPause, "duration_ms", lambda *_arguments: 1_000)


MUTANTS: dict[str, Mutate] = {
    "a retry drops a job": _deciding(_drop_one),
    "a transient fault buries": _deciding(_bury_instead),
    "the pauses do not grow": _never_wait_longer,
}

SUITE = SimulationSuite()
