"""The checks that need the database and the model, run by the daemon, or the command when no daemon runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agentctx.config.schema import BackupSettings, Settings
from agentctx.doctor.check import Check, Finding, blocking, failed, passed, skipped, skipping, warned
from agentctx.doctor.database import Opened, database_checks
from agentctx.doctor.network import judge_context, judge_network, network_problems
from agentctx.doctor.provider import Embedding, Probe, judge_spending, provider_checks
from agentctx.doctor.queue import queue_checks
from agentctx.doctor.rag import rag_checks
from agentctx.doctor.scrub import Recheck
from agentctx.doctor.space import space_checks
from agentctx.errors import StorageFailed
from agentctx.host.memory_limits import MemoryLimits, lack_of_memory, little_memory, memory_limits
from agentctx.service.prover import RunningModels
from agentctx.storage.backups import Backup, BackupRecord, read_record
from agentctx.telemetry.loop_lag import LoopLag
from agentctx.times import Clock
from agentctx.wire import CalibrationState, WithoutContext
from agentctx.wording import counted, duration, size

OVERDUE_INTERVALS = 2.0
"""Intervals after which a missing backup is reported."""
MS_PER_HOUR = 3_600_000
_NOW = "Make one now with `agentctx backup`; the daemon's log says why it made none."
LATE_S: Final = 0.1
MAX_LATE: Final = 0.01
STALL_S: Final = 1.0
_NO_DAEMON: Final = "no daemon runs"


def no_queue() -> None:
    """Do nothing: no queue waits for new jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerContext:
    """What the inner checks look at."""

    settings: Settings
    opened: Opened
    embedding: Embedding
    clock: Clock
    queue_trouble: str | None = None
    """Why the running queue embeds nothing at the moment; None if it does."""
    recheck_table: Recheck = no_queue
    calibration: CalibrationState | None = None
    """None without a model."""
    running: Running | None = None
    """None if no daemon runs."""


def inner_checks(inside: InnerContext) -> list[Check]:
    """Return all checks in `catalog.INNER_IDS`."""
    probe, queue = Probe(inside.embedding), inside.settings.embedding.queue
    return [
        *database_checks(inside.opened, inside.recheck_table, inside.clock),
        *running_checks(inside.running),
        Check(
            id="running.context",
            run=lambda: judge_context(inside.running.without_context if inside.running else ()),
        ),
        Check(id="running.network", run=blocking(lambda: judge_network(network_problems(inside.settings)))),
        skipping("backup.age", f"the database is {server}: the server's operator backs it up")
        if (server := inside.opened.server)
        else backup_check(inside.opened.path.parent, inside.settings.backup, inside.clock),
        *queue_checks(inside.opened, queue, inside.clock, inside.queue_trouble, inside.recheck_table),
        *provider_checks(inside.embedding, probe),
        *space_checks(
            inside.opened, inside.embedding, probe, inside.running.models if inside.running else None
        ),
        Check(id="embedding.spending", run=lambda: judge_spending(inside.embedding.spending)),
        *rag_checks(inside.settings, inside.calibration, offline=inside.embedding.offline),
    ]


def backup_check(data_dir: Path, settings: BackupSettings, clock: Clock) -> Check:
    def look() -> Finding:
        try:
            known = read_record(data_dir)
        except ValueError:
            return warned("the backup record cannot be read", hint="Make a backup to rewrite it.")
        is_there = known.last is not None and Path(known.last.path).is_file()
        return judge_backups(known, settings.interval_h, is_there=is_there, now=clock())

    return Check(id="backup.age", run=blocking(look))


def judge_backups(known: BackupRecord, interval_h: float, *, is_there: bool, now: int) -> Finding:
    """Judge the backups. `is_there`: the file of the last verified backup still exists."""
    if known.last is None:
        return _judge_none(known.problem, interval_h)
    summary = f"the last verified backup is {duration(max(0, now - known.last.made) / 1_000)} old"
    if not is_there:
        return warned(f"{summary}, but its file is gone", detail=known.last.path, hint=_NOW)
    if known.problem:
        return warned(
            f"{summary}; a later one failed: {known.problem}", detail=_described(known.last), hint=_NOW
        )
    if interval_h and now - known.last.made > OVERDUE_INTERVALS * interval_h * MS_PER_HOUR:
        return warned(f"{summary}; expected every {interval_h:g} h", detail=_described(known.last), hint=_NOW)
    return passed(summary, detail=_described(known.last))


def _judge_none(problem: str, interval_h: float) -> Finding:
    if problem:
        return failed(f"the last backup failed, and there is no other: {problem}", hint=_NOW)
    if interval_h:
        return warned("no backup has been made yet", hint=_NOW)
    return skipped(
        "backups are off, and none has been made",
        hint="Set backup.interval_h, or run `agentctx backup FILE` regularly.",
    )


def _described(backup: Backup) -> str:
    return f"{counted(backup.entries, 'entry', 'entries')}, {size(backup.bytes)}, {backup.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The current state of a running daemon."""

    models: RunningModels = field(default_factory=dict)
    loop_lag: LoopLag
    write_fault: StorageFailed | None = None
    captures_refused: int = 0
    without_context: Sequence[WithoutContext] = ()


def running_checks(running: Running | None) -> list[Check]:
    if running is None:
        checks = ("running.memory", "running.loop", "running.writes", "running.captures")
        return [skipping(check, _NO_DAEMON) for check in checks]
    return [
        Check(id="running.memory", run=blocking(lambda: judge_memory(memory_limits()))),
        Check(id="running.loop", run=lambda: judge_loop(running.loop_lag)),
        Check(id="running.writes", run=lambda: judge_writes(running.write_fault)),
        Check(id="running.captures", run=lambda: judge_captures(running.captures_refused)),
    ]


def judge_memory(limits: MemoryLimits) -> Finding:
    problem = lack_of_memory(limits)
    if scarce := problem.message.rstrip(".") if problem else little_memory(limits):
        return warned(scarce, hint="Give the daemon more, or large requests fail.")
    return passed("the daemon may use enough memory")


def judge_loop(lag: LoopLag) -> Finding:
    """Judge the event loop's lag, the minimum wait of a request; a `MAX_LATE` share may exceed `LATE_S`."""
    if not lag.readings:
        return passed("the event loop has not been measured yet")
    worst = f"at most {lag.worst_s * 1_000:.0f} ms late in the last {lag.readings} alarms"
    late = lag.later_than(LATE_S)
    if late <= max(1, MAX_LATE * lag.readings) and lag.worst_s < STALL_S:
        return passed(f"the event loop keeps up: {worst}")
    return warned(
        f"the event loop was more than {LATE_S * 1_000:.0f} ms late in {late} of {lag.readings} samples",
        detail=worst,
        hint="Check whether the machine is short of CPU or memory. If not, please report it with the log.",
    )


def judge_writes(fault: StorageFailed | None) -> Finding:
    if fault is None:
        return passed("saves are accepted")
    return failed(
        f"saving is stopped: {fault.message}",
        hint=fault.hint or "Check the disk; saving resumes automatically once the database is verified.",
    )


def judge_captures(refused: int) -> Finding:
    """Judge how many saves of agents' hooks were refused since the start."""
    if not refused:
        return passed("no save of an agent's hook was refused since the start")
    return warned(
        f"{counted(refused, 'save')} of agents' hooks refused since the start: those turns are lost",
        hint="The daemon's log says why, in its lines `capture_refused`.",
    )
