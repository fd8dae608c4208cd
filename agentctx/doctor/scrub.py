"""Is everything that is stored still what was saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentctx.doctor.check import SCAN_S, Check, Finding, failed, passed
from agentctx.storage.base import Storage
from agentctx.storage.records import Damage, ScrubState
from agentctx.times import format_time
from agentctx.wording import counted, listed

_SHOWN = 10

LookAgain = Callable[[], None]
"""Tells the running queue that jobs were made in the table; does nothing where no queue runs."""


def scrub_check(storage: Storage, look_again: LookAgain) -> Check:
    """Compares everything with its checksums; the repair re-embeds damaged vectors and names the rest."""

    async def run() -> Finding:
        return judge_damage(await storage.scrub.check_all(), await storage.scrub.state())

    async def fix() -> str:
        lost = await storage.scrub.repair()
        look_again()
        if not lost:
            return "damaged vectors are embedded again"
        return f"damaged vectors are embedded again; cannot be recreated: {_named(lost)}"

    return Check(id="database.scrub", run=run, fix=fix, timeout_s=SCAN_S)


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
