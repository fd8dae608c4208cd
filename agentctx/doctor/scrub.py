"""Checks that stored data still matches what was saved."""

from __future__ import annotations

from collections.abc import Sequence

from agentctx.doctor.check import SCAN_S, Finding, check, failed, passed, warned
from agentctx.doctor.contexts import Inner
from agentctx.storage.audit import DAMAGE, AuditQuery, AuditRow, ChainFault, ChainVerdict
from agentctx.storage.records import Damage, ScrubState
from agentctx.times import format_time
from agentctx.wire.wording import counted, listed

_SHOWN = 10
_FAULTS_SHOWN = 3
RECENT_MS = 7 * 86_400_000
"""How long repairs made at startup are reported."""


async def _repair_damage(inner: Inner) -> str:
    lost = await inner.storage.scrub.repair()
    inner.recheck_table()
    if not lost:
        return "damaged vectors are embedded again"
    return f"damaged vectors are embedded again; cannot be recreated: {_named(lost)}"


@check(
    Inner,
    "database.scrub",
    lambda inner: inner.storage.scrub.check_all(),
    lambda inner: inner.storage.scrub.state(),
    fix=_repair_damage,
    timeout_s=SCAN_S,
)
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


@check(Inner, "database.bookkeeping")
async def check_bookkeeping(inner: Inner) -> Finding:
    rows = await inner.storage.audit.page(AuditQuery(kind=DAMAGE, limit=_SHOWN))
    return judge_bookkeeping([row for row in rows if inner.clock() - row.at < RECENT_MS])


def judge_bookkeeping(recent: Sequence[AuditRow]) -> Finding:
    """Judge the rows of the audit trail about what starts repaired in the last days, newest first."""
    if not recent:
        return passed("every bookkeeping row is readable")
    return warned(
        f"bookkeeping rows were damaged and repaired or removed, last on {format_time(recent[0].at)}",
        detail=listed(dict.fromkeys(row.detail for row in recent), separator="; "),
        hint="What was saved is not affected. Check the disk and the memory of the machine. If the table is "
        "`installation`, another program may have written to it: see database.audit.",
    )
