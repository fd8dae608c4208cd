"""Hours of mixed load: the daemon's descriptors and memory do not grow."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentctx.errors import AgentctxError
from tests.durability.forked_daemon import DaemonEnded, ForkedDaemon
from tests.durability.inspection import inspect
from tests.durability.kill import QUICK, WRITERS, pause
from tests.durability.suite import Outcome
from tests.durability.writers import Acknowledged, Writer

SEARCHERS = 4
WARM_UP = 0.25
"""The part of the time after which memory is expected to stay: caches are full, entries come and go."""
MAX_GROWTH_MIB = 16.0
MAX_MORE_DESCRIPTORS = 8
CONTROL_MINUTES = 0.25
SECONDS_PER_MINUTE = 60


@dataclass(frozen=True)
class Usage:
    """What a process holds."""

    descriptors: int
    resident_mib: float

    @classmethod
    def of(cls, pid: int) -> Usage:
        process = Path(f"/proc/{pid}")
        pages = int((process / "statm").read_text(encoding="ascii").split()[1])
        return cls(len(list((process / "fd").iterdir())), pages * 4096 / 2**20)


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
    acknowledged = Acknowledged(enough=2**62)
    try:
        daemon.start(QUICK, broken=broken)
        with _busy(daemon, writers, acknowledged):
            pause(minutes * SECONDS_PER_MINUTE * WARM_UP)
            before = Usage.of(daemon.pid)
            pause(minutes * SECONDS_PER_MINUTE * (1 - WARM_UP))
            after = Usage.of(daemon.pid)
        daemon.stop()
    except DaemonEnded as error:
        return Outcome(0, (f"it does not start: {error}",))
    finally:
        daemon.end()
    problems = _growth(before, after)
    problems += [problem for writer in writers for problem in writer.violations]
    problems += inspect(daemon.data_dir).violations(writer.ledger for writer in writers)
    grown = after.resident_mib - before.resident_mib
    figures = {
        "acknowledged writes": acknowledged.count,
        "memory MiB": after.resident_mib,
        "grown MiB": grown,
    }
    return Outcome(round(minutes), tuple(problems), figures)


def _growth(before: Usage, after: Usage) -> list[str]:
    problems = []
    if after.descriptors > before.descriptors + MAX_MORE_DESCRIPTORS:
        problems.append(f"descriptors: {before.descriptors}, then {after.descriptors}")
    if after.resident_mib > before.resident_mib + MAX_GROWTH_MIB:
        problems.append(f"memory: {before.resident_mib:.0f} MiB, then {after.resident_mib:.0f} MiB")
    return problems


@contextmanager
def _busy(daemon: ForkedDaemon, writers: list[Writer], acknowledged: Acknowledged) -> Iterator[None]:
    """Writers and searchers work while the block runs."""
    stop = threading.Event()
    threads = [threading.Thread(target=writer.work, args=(acknowledged, stop)) for writer in writers]
    threads += [threading.Thread(target=_search, args=(daemon, stop)) for _ in range(SEARCHERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _search(daemon: ForkedDaemon, stop: threading.Event) -> None:
    began = time.monotonic()
    try:
        while not stop.is_set():
            with daemon.client() as client:  # a fresh connection each time
                client.search(f"amber basalt {time.monotonic() - began:.3f}")
                client.context("granite harbor")
                client.list(limit=5)
    except AgentctxError:
        if not stop.is_set():
            raise


SUITE = SoakSuite()
