"""Can the rows be read that are not the memory itself."""

from __future__ import annotations

from collections.abc import Iterable

from agentctx.doctor.check import SCAN_S, Check, Finding, failed, passed, warned
from agentctx.doctor.scrub import LookAgain
from agentctx.storage.base import Storage
from agentctx.storage.bookkeeping import Bookkeeping
from agentctx.times import Clock, format_time
from agentctx.wording import counted, listed

RECENT_MS = 7 * 86_400_000
"""How long repairs of a start are shown."""
_DISK = "What was saved is not affected. Check the disk and the memory of the machine, and make a backup."
_SECURITY = (
    "Check whether another program wrote to the database: the earlier audit trail cannot be verified. "
    "Keep a copy of the file, then run `agentctx doctor --fix`, which removes the damaged values."
)


def bookkeeping_check(storage: Storage, look_again: LookAgain, clock: Clock) -> Check:
    async def run() -> Finding:
        return judge_bookkeeping(await storage.upkeep.check_bookkeeping(), now=clock())

    async def fix() -> str:
        repaired = await storage.upkeep.repair_bookkeeping()
        look_again()
        return f"repaired or removed {counted(repaired, 'row')}"

    return Check(id="database.bookkeeping", run=run, fix=fix, timeout_s=SCAN_S)


def judge_bookkeeping(found: Bookkeeping, *, now: int) -> Finding:
    if found.damaged:
        rows = sum(damaged.rows for damaged in found.damaged)
        return failed(
            f"{counted(rows, 'bookkeeping row')} cannot be read",
            detail=_named(f"{each.table}: {each.loss}" for each in found.damaged),
            hint=f"Run `agentctx doctor --fix`, which repairs or removes them. {_DISK}",
            fixable=True,
        )
    if found.set_aside:
        return warned(
            "the installation's secret or the end of the audit trail was damaged and set apart",
            detail=_named(found.set_aside),
            hint=_SECURITY,
            fixable=True,
        )
    recent = [each for each in found.repaired if now - each.at < RECENT_MS]
    if recent:
        return warned(
            f"bookkeeping rows were repaired at startup, last on {format_time(recent[0].at)}",
            detail=_named(f"{each.table}: {counted(each.rows, 'row')}" for each in recent),
            hint=_DISK,
        )
    return passed("every bookkeeping row is readable")


def _named(parts: Iterable[str]) -> str:
    return listed(dict.fromkeys(parts), separator="; ")
