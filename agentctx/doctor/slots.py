"""How much of the tables of vectors is taken by vectors."""

from __future__ import annotations

from typing import Final

from agentctx.doctor.check import SCAN_S, Check, Finding, passed, warned
from agentctx.storage.base import Storage
from agentctx.storage.proofs import SlotCount
from agentctx.wording import counted

MANY_DEAD: Final = 0.3
"""The daemon packs from a quarter on: more is left only where it does not get to it."""


def slots_check(storage: Storage) -> Check:
    """Counts the slots; the repair packs all vectors, while searches and saves continue."""

    async def run() -> Finding:
        return judge_slots(await storage.slots.count())

    async def fix() -> str:
        moved = await storage.slots.pack()
        return f"packed the tables of vectors, {counted(moved, 'vector')} moved"

    return Check(id="database.slots", run=run, fix=fix, timeout_s=SCAN_S)


def judge_slots(count: SlotCount) -> Finding:
    if not count.used and not count.dead:
        return passed("there are no vectors")
    summary = f"{counted(count.used, 'slot')} used, {count.dead} dead, {count.spare} spare"
    if count.dead_share <= MANY_DEAD:
        return passed(summary)
    return warned(
        f"{count.dead_share:.0%} of the vector slots are dead: the file is larger than necessary",
        detail=summary,
        hint="The daemon packs them gradually; `agentctx doctor --fix` does it now.",
        fixable=True,
    )
