"""What only a running daemon knows: does its event loop keep up, can it write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from agentctx.doctor.check import Check, Finding, failed, passed, skipped, warned
from agentctx.errors import StorageFailed
from agentctx.service.fingerprints import InForce
from agentctx.telemetry.loop_lag import LoopLag

LATE_S: Final = 0.1
MOST_LATE: Final = 0.01
STALL_S: Final = 1.0
_NO_DAEMON: Final = "no daemon runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A daemon at this moment."""

    in_force: InForce = field(default_factory=dict)
    loop_lag: LoopLag
    write_fault: StorageFailed | None = None


def running_checks(running: Running | None) -> list[Check]:
    async def loop() -> Finding:
        return skipped(_NO_DAEMON) if running is None else judge_loop(running.loop_lag)

    async def writes() -> Finding:
        return skipped(_NO_DAEMON) if running is None else judge_writes(running.write_fault)

    return [Check(id="running.loop", run=loop), Check(id="running.writes", run=writes)]


def judge_loop(lag: LoopLag) -> Finding:
    """Late is what every request waits at least: more than `LATE_S` in a hundredth of the alarms is much."""
    if not lag.readings:
        return passed("the event loop has not been measured yet")
    worst = f"at most {lag.worst_s * 1_000:.0f} ms late in the last {lag.readings} alarms"
    late = lag.later_than(LATE_S)
    if late <= max(1, MOST_LATE * lag.readings) and lag.worst_s < STALL_S:
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
