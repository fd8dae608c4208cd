"""Checks that stored data still matches what was saved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentctx.doctor.check import SCAN_S, Finding, check, failed, passed, warned
from agentctx.doctor.contexts import Inner
from agentctx.storage.audit import ChainFault, ChainVerdict
from agentctx.storage.records import Damage, ScrubState
from agentctx.storage.upkeep import BookkeepingReport
from agentctx.times import format_time
from agentctx.wire.wording import counted, listed

_SHOWN = 10
_FAULTS_SHOWN = 3
RECENT_MS = 7 * 86_400_000
"""How long repairs made at startup are reported."""
_DISK = "What was saved is not affected. Check the disk and the memory of the machine, and make a backup."
_SECURITY = (
    "Check whether another program wrote to the database: the earlier audit trail cannot be verified. "
    "Keep a copy of the file, then run `agentctx doctor --fix`, which removes the damaged values."
)


async def _repair_damage(inner: Inner) -> str:
    lost = await inner.storage.scrub.repair()
    inner.recheck_table()
    if not lost:
        return "damaged vectors are embedded again"
    return f"damaged vectors are embedded again; cannot be recreated: {_named(lost)}"


@check(Inner, "database.scrub", fix=_repair_damage, timeout_s=SCAN_S)
async def check_checksums(inner: Inner) -> Finding:
    scrub = inner.storage.scrub
    return judge_damage(await scrub.check_all(), await scrub.state())


def judge_damage(damage: Sequence[Damage], state: ScrubState) -> Finding:
    when = "never" if state.finished is None else format_time(state.finished)
    last = f"last full pass in the background: {when}"
    if not damage:
        return passed("everything stored matches its checksums", detail=last)
    lost = [each for each in damage if each.space is None]
    vectors = len(damage) - len(lost)
    if not lost:
        return failed(
            f"{counted(vectors, 'vector')} damaged",
            detail=last,
            hint="Run `agentctx doctor --fix`, which embeds them again.",
            fixable=True,
        )
    return failed(
        f"{counted(len({each.entry for each in lost}), 'entry', 'entries')} damaged and never returned",
        detail=f"{_named(lost)}; {last}",
        hint="Restore a backup, save these entries again, or forget them.",
        fixable=bool(vectors),
    )


def _named(damage: Sequence[Damage]) -> str:
    return listed(dict.fromkeys(each.entry for each in damage), most=_SHOWN, separator=", ")


@check(Inner, "database.audit", lambda inner: inner.storage.audit.verify(), timeout_s=SCAN_S)
def judge_audit(verdict: ChainVerdict) -> Finding:
    """Judge the whole audit chain. It has no repair: changes must stay visible."""
    if not verdict.faults:
        return passed(f"the audit trail is intact, {counted(verdict.rows, 'row')}")
    return failed(
        f"the audit trail was changed or is damaged: {counted(verdict.faults, 'fault')}",
        detail=listed(map(_describe, verdict.listed), most=_FAULTS_SHOWN, separator="; "),
        hint="Find out who can write the database file, and keep the file; a backup has the original trail.",
    )


def _describe(fault: ChainFault) -> str:
    return fault.problem if fault.seq is None else f"row {fault.seq} {fault.problem}"


async def _repair_bookkeeping(inner: Inner) -> str:
    repaired = await inner.upkeep.repair_bookkeeping()
    inner.recheck_table()
    return f"repaired or removed {counted(repaired, 'row')}"


@check(Inner, "database.bookkeeping", fix=_repair_bookkeeping, timeout_s=SCAN_S)
async def check_bookkeeping(inner: Inner) -> Finding:
    return judge_bookkeeping(await inner.upkeep.check_bookkeeping(), now=inner.clock())


def judge_bookkeeping(state: BookkeepingReport, *, now: int) -> Finding:
    if state.damaged:
        rows = sum(damaged.rows for damaged in state.damaged)
        return failed(
            f"{counted(rows, 'bookkeeping row')} cannot be read",
            detail=_distinct(f"{each.table}: {each.loss}" for each in state.damaged),
            hint=f"Run `agentctx doctor --fix`, which repairs or removes them. {_DISK}",
            fixable=True,
        )
    if state.set_aside:
        return warned(
            "the installation's secret or the end of the audit trail was damaged and set apart",
            detail=_distinct(state.set_aside),
            hint=_SECURITY,
            fixable=True,
        )
    recent = [each for each in state.repaired if now - each.at < RECENT_MS]
    if recent:
        return warned(
            f"bookkeeping rows were repaired at startup, last on {format_time(recent[0].at)}",
            detail=_distinct(f"{each.table}: {counted(each.rows, 'row')}" for each in recent),
            hint=_DISK,
        )
    return passed("every bookkeeping row is readable")


def _distinct(parts: Iterable[str]) -> str:
    return listed(dict.fromkeys(parts), separator="; ")
