"""Hours of mixed load: the daemon's descriptors and memory do not grow."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from agentctx.errors import AgentctxError
from tests.durability.forked_daemon import DaemonEnded, ForkedDaemon
from tests.durability.inspection import inspect
from tests.durability.kill import WRITERS, pause
from tests.durability.suite import Outcome
from tests.durability.writers import Acknowledged, Writer

SEARCHERS = 4
SAMPLES = 60
"""Samples per run. The medians of the second quarter, when caches are full, and the last are compared."""
MAX_GROWTH_MIB = 8.0
MAX_MORE_DESCRIPTORS = 2
"""Tolerance: searchers come and go while descriptors are counted."""
CONTROL_MINUTES = 0.25
SECONDS_PER_MINUTE = 60


@dataclass(frozen=True)
class Usage:
    """The resources of a process."""

    descriptors: float
    threads: float
    own_mib: float
    """Anonymous memory: pages of mapped files belong to the system and grow with the database."""

    @classmethod
    def of(cls, pid: int) -> Usage:
        process = Path(f"/proc/{pid}")
        lines = (process / "status").read_text(encoding="ascii").splitlines()
        status = dict(line.split(":", 1) for line in lines)
        own_kib = int(status["RssAnon"].removesuffix("kB"))
        return cls(len(list((process / "fd").iterdir())), int(status["Threads"]), own_kib / 1024)

    @classmethod
    def usual(cls, samples: Sequence[Usage]) -> Usage:
        """Return the median of each figure."""
        return cls(
            median(sample.descriptors for sample in samples),
            median(sample.threads for sample in samples),
            median(sample.own_mib for sample in samples),
        )


class SoakSuite:
    name = "soak"
    unit = "minutes"
    ci_n = 60
    torture_n = 60

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        return _run(float(n), seed, folder, broken="")

    def control(self, *, seed: int, folder: Path) -> Outcome:
        return _run(CONTROL_MINUTES, seed, folder, broken="keep every request")


def _run(minutes: float, seed: int, folder: Path, *, broken: str) -> Outcome:
    daemon = ForkedDaemon(folder)
    writers = [Writer(number, seed, daemon.socket) for number in range(WRITERS)]
    acknowledged, answered = Acknowledged(enough=2**62), Acknowledged(enough=2**62)
    try:
        daemon.start(broken=broken)
        with _busy(daemon, writers, acknowledged, answered):
            samples = _sampled(daemon, minutes)
        daemon.stop()
    except DaemonEnded as error:
        return Outcome(0, (f"it does not start, or ended: {error}",))
    finally:
        daemon.end()
    before, after = _compared(samples)
    problems = _growth(before, after)
    problems += [problem for writer in writers for problem in writer.violations]
    problems += inspect(daemon.data_dir).violations(writer.ledger for writer in writers)
    figures = {
        "acknowledged writes": acknowledged.count,
        "answers": answered.count,
        "own memory MiB": after.own_mib,
        "memory growth MiB": after.own_mib - before.own_mib,
        "descriptor growth": after.descriptors - before.descriptors,
        "thread growth": after.threads - before.threads,
    }
    return Outcome(round(minutes), tuple(problems), figures)


def _sampled(daemon: ForkedDaemon, minutes: float) -> list[Usage]:
    """Raises `DaemonEnded`."""
    samples = []
    for _ in range(SAMPLES):
        pause(minutes * SECONDS_PER_MINUTE / SAMPLES)
        if not daemon.is_running:
            raise DaemonEnded(f"exit code {daemon.wait()}: {daemon.log[-20:]}")
        samples.append(Usage.of(daemon.pid))
    return samples


def _compared(samples: Sequence[Usage]) -> tuple[Usage, Usage]:
    quarter = len(samples) // 4
    return Usage.usual(samples[quarter : 2 * quarter]), Usage.usual(samples[-quarter:])


def _growth(before: Usage, after: Usage) -> list[str]:
    problems = []
    if after.descriptors > before.descriptors + MAX_MORE_DESCRIPTORS:
        problems.append(f"descriptors: {before.descriptors:g}, then {after.descriptors:g}")
    if after.threads > before.threads:
        problems.append(f"threads: {before.threads:g}, then {after.threads:g}")
    if after.own_mib > before.own_mib + MAX_GROWTH_MIB:
        problems.append(f"memory: {before.own_mib:.0f} MiB, then {after.own_mib:.0f} MiB")
    return problems


@contextmanager
def _busy(
    daemon: ForkedDaemon, writers: Sequence[Writer], acknowledged: Acknowledged, answered: Acknowledged
) -> Iterator[None]:
    """Run writers and searchers during the block."""
    stop = threading.Event()
    threads = [threading.Thread(target=writer.work, args=(acknowledged, stop)) for writer in writers]
    threads += [threading.Thread(target=_search, args=(daemon, answered, stop)) for _ in range(SEARCHERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _search(daemon: ForkedDaemon, answered: Acknowledged, stop: threading.Event) -> None:
    began = time.monotonic()
    try:
        while not stop.is_set():
            with daemon.client() as client:  # a fresh connection each time
                client.search(f"amber basalt {time.monotonic() - began:.3f}")
                answered.add()
                client.context("granite harbor")
                answered.add()
                client.list(limit=5)
                answered.add()
    except AgentctxError:
        if not stop.is_set():
            raise


SUITE = SoakSuite()
