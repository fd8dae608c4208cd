"""A failing disk: system calls on the database of a real daemon fail, under strace.

Every error must be one of the storage; reads go on; the daemon lives, and takes writes again by itself when
the disk does; in the end all that was acknowledged is there, and nothing that was refused.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from agentctx import Client
from agentctx.errors import AgentctxError
from agentctx.storage.offline import DATABASE_NAME
from tests.durability.forked_daemon import ForkedDaemon
from tests.durability.inspection import inspect
from tests.durability.suite import Outcome

CONFIG = """
[embedding]
provider = "fake"
[storage]
sweep_interval_s = 0.2
"""
CALLS = {"write": "pwrite64", "sync": "fsync,fdatasync", "truncate": "ftruncate", "open": "openat"}
ERRORS = ("EIO", "ENOSPC")
REFUSALS = ("storage_failed", "storage_full")
SAVES = 6
RESUMES_WITHIN_S = 10.0
ATTACHED = b"attached"


@dataclass(frozen=True)
class Fault:
    """Which calls of a kind fail: number `first` of a thread, from 1, and with `for_good` all later ones."""

    kind: str
    error: str
    first: int
    for_good: bool

    def __str__(self) -> str:
        return f"{self.kind} {self.first}{'+' if self.for_good else ''} {self.error}"


def faults() -> list[Fault]:
    """All choices: a burst of saves makes no more calls than this."""
    return [
        Fault(kind, error, first, for_good)
        for kind, most in (("write", 40), ("sync", 8), ("truncate", 2), ("open", 3))
        for error in ERRORS
        for first in range(1, most + 1)
        for for_good in (False, True)
    ]


@dataclass
class _Trial:
    """What has been acknowledged so far, and all violations."""

    first: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    violations: list[str] = field(default_factory=list)
    slowest_resume_s: float = 0.0


class Disk:
    """Inject `n` faults, one after another, into one daemon."""

    name = "disk"
    unit = "disk faults"
    smoke_n = 2
    ci_n = 12
    torture_n = 2_120

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        return _endure(n, seed=seed, folder=folder, broken="")

    def control(self, *, seed: int, folder: Path) -> Outcome:
        """Run a daemon that answers before it commits."""
        return _endure(6, seed=seed, folder=folder, broken="acknowledge before commit")


SUITE = Disk()


def _endure(n: int, *, seed: int, folder: Path, broken: str) -> Outcome:
    rng = random.Random(seed)
    chosen = [rng.choice(faults()) for _ in range(n)]
    trial = _Trial()
    daemon = ForkedDaemon(folder).start(CONFIG, broken=broken)
    try:
        with closing(daemon.client(timeout_s=10)) as client:
            trial.first = client.save_knowledge("always there", "first").id
            trial.texts["always there"] = "first"
            for number, fault in enumerate(chosen):
                before = len(trial.violations)
                _suffer(daemon, client, fault, trial, number)
                trial.violations[before:] = [f"{fault}: {line}" for line in trial.violations[before:]]
                if not daemon.is_running:
                    trial.violations.append(
                        f"{fault}: the daemon died: {daemon.log[-1].get('exception')!r:.9000}"
                    )
                    break
        daemon.stop(signal.SIGKILL)
    finally:
        daemon.end()
    trial.violations += _lost(daemon.data_dir, trial)
    figures = {"refused writes": len(trial.refused), "slowest resume s": trial.slowest_resume_s}
    return Outcome(n, tuple(trial.violations), figures)


def _suffer(daemon: ForkedDaemon, client: Client, fault: Fault, trial: _Trial, number: int) -> None:
    strace = _attach(daemon, fault)
    has_failed = False
    for step in range(SAVES):
        has_failed |= not _save(client, trial, f"fault {number} save {step}")
        if has_failed and not fault.for_good:
            break
    try:
        client.get(trial.first)
    except AgentctxError as error:
        if fault.kind != "open":
            trial.violations.append(f"a read failed with {error.code}")
    strace.send_signal(signal.SIGTERM)
    strace.communicate()
    _await_writes(client, trial, f"fault {number} after")


def _attach(daemon: ForkedDaemon, fault: Fault) -> subprocess.Popen[bytes]:
    """Make calls on the database files fail from now on."""
    when = f"{fault.first}{'+' if fault.for_good else ''}"
    path = daemon.data_dir / DATABASE_NAME
    files = [part for name in (path, f"{path}-wal") for part in ("-P", str(name))]
    strace = subprocess.Popen(
        [
            *("strace", "-f", "-o", "/dev/null", *files, "-e", f"trace={CALLS[fault.kind]}"),
            *("-e", f"inject={CALLS[fault.kind]}:error={fault.error}:when={when}", "-p", str(daemon.pid)),
        ],
        stderr=subprocess.PIPE,
    )
    assert strace.stderr is not None
    said = b""
    while ATTACHED not in said:
        line = strace.stderr.readline()
        assert line, f"strace cannot attach: {said.decode()}"
        said += line
    return strace


def _save(client: Client, trial: _Trial, key: str) -> bool:
    """Save, and return whether it was acknowledged."""
    text = f"{key} " + "memory that must not be lost " * 20
    try:
        client.save_knowledge(key, text)
    except AgentctxError as error:
        trial.refused.add(key)
        if error.code not in REFUSALS:
            trial.violations.append(f"a save failed with {error.code}: {error.message}")
        elif not error.hint:
            trial.violations.append("a refusal without a hint")
        return False
    trial.texts[key] = text
    return True


def _await_writes(client: Client, trial: _Trial, key: str) -> None:
    """Check that the daemon accepts writes within seconds of the repair, without a restart."""
    began = time.monotonic()
    while not _save(client, trial, key):
        if time.monotonic() - began > RESUMES_WITHIN_S:
            trial.violations.append(f"no write was taken within {RESUMES_WITHIN_S:g} s")
            return
    trial.slowest_resume_s = max(trial.slowest_resume_s, round(time.monotonic() - began, 2))


def _lost(data_dir: Path, trial: _Trial) -> list[str]:
    found = inspect(data_dir)
    stored = {version.content for version in found.stored.values()}
    lost = [f"lost: {key}" for key, text in trial.texts.items() if text not in stored]
    back = [
        f"refused, and stored all the same: {key}"
        for key in trial.refused - set(trial.texts)
        if any(content.startswith(f"{key} ") for content in stored)
    ]
    return [*found.problems, *lost, *back]
