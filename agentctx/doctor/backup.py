"""Checks the automatic backups, and says how to restore the newest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agentctx.config.schema import Settings
from agentctx.doctor.check import Finding, check, passed, skipped, warned
from agentctx.doctor.contexts import Inner
from agentctx.service.backup import BEGINS_S, MS_PER_HOUR, SPACE_HINT, folder_of, space_problem
from agentctx.storage.backups import AutomaticBackup, automatic_backups
from agentctx.storage.opening import offline_storage, server_of
from agentctx.wire.wording import counted, duration

OVERDUE_INTERVALS: Final = 2.0
"""Intervals after which a missing backup is reported."""
_LATE_S: Final = 3 * BEGINS_S
"""How long after its start a daemon without a backup is reported."""
_NOW: Final = "Make one now with `agentctx backup`; the daemon's log says why it made none."


@check(Inner, "backup.age")
def check_backups(inner: Inner) -> Finding:
    if inner.server:
        return skipped(f"the database is {inner.server}: the server's operator backs it up")
    settings = inner.settings.backup
    folder = folder_of(settings, inner.path.parent)
    problem = space_problem(folder, inner.path) if settings.interval_h else None
    up_s = time.time() - inner.daemon.recorder.started if inner.daemon else 0.0
    return judge_backups(
        automatic_backups(folder), settings.interval_h, problem=problem, up_s=up_s, now=inner.clock()
    )


def judge_backups(
    kept: Sequence[AutomaticBackup], interval_h: float, *, problem: str | None, up_s: float, now: int
) -> Finding:
    """Judge the backups, oldest first; the daemon runs for `up_s`. `problem`: why it can make none now."""
    if not kept:
        if not interval_h:
            return skipped(
                "automatic backups are off, and there are none",
                hint="Set backup.interval_h to 24, or run `agentctx backup FILE` regularly.",
            )
        if problem is None and up_s < _LATE_S:
            return skipped("the daemon makes the first backup minutes after its start")
        return warned(problem or "the daemon has made no backup", hint=SPACE_HINT if problem else _NOW)
    age_ms = max(0, now - kept[-1].made)
    summary = f"{counted(len(kept), 'backup')}, the newest {duration(age_ms / 1_000)} old"
    is_overdue = interval_h and age_ms > OVERDUE_INTERVALS * interval_h * MS_PER_HOUR
    if problem or is_overdue:
        why = problem or f"expected every {interval_h:g} h"
        return warned(f"{summary}; {why}", detail=str(kept[-1].path), hint=SPACE_HINT if problem else _NOW)
    return passed(summary, detail=str(kept[-1].path))


async def restore_hint(inner: Inner) -> str:
    """Return the `remedy` for the database."""
    return await remedy(inner.settings, inner.path, now=inner.clock())


async def remedy(settings: Settings, database: Path, *, now: int) -> str:
    """Say how to bring back what only a backup has, and what is lost since."""
    if server_of(settings):
        return "Restore a dump with the server's tools."
    folder = folder_of(settings.backup, database.parent)
    if not (kept := await asyncio.to_thread(automatic_backups, folder)):
        return "There is no automatic backup. If you have another, run `agentctx restore FILE`."
    newest = kept[-1]
    saved = await asyncio.to_thread(offline_storage().saved_since, database, newest.made)
    later = "" if saved is None else f", without the {counted(saved, 'entry', 'entries')} saved since"
    age = duration(max(0, now - newest.made) / 1_000)
    return (
        f"Stop the daemon and run `agentctx restore {newest.path}`: it was verified and is {age} old{later}. "
        "The damaged file is kept."
    )
