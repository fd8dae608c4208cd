"""Checks how old the last verified backup is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from agentctx.doctor.check import Finding, check, failed, passed, skipped, warned
from agentctx.doctor.contexts import Inner
from agentctx.storage.backups import BackupRecord, read_record
from agentctx.wire.wording import counted, duration, size

OVERDUE_INTERVALS: Final = 2.0
"""Intervals after which a missing backup is reported."""
MS_PER_HOUR: Final = 3_600_000
_NOW: Final = "Make one now with `agentctx backup`; the daemon's log says why it made none."


@check(Inner, "backup.age")
def check_backups(inner: Inner) -> Finding:
    if inner.server:
        return skipped(f"the database is {inner.server}: the server's operator backs it up")
    try:
        known = read_record(inner.path.parent)
    except ValueError:
        return warned("the backup record cannot be read", hint="Make a backup to rewrite it.")
    is_there = known.last is not None and Path(known.last.path).is_file()
    return judge_backups(known, inner.settings.backup.interval_h, is_there=is_there, now=inner.clock())


def judge_backups(known: BackupRecord, interval_h: float, *, is_there: bool, now: int) -> Finding:
    """Judge the backups. `is_there`: the file of the last verified backup still exists."""
    if known.last is None:
        if known.problem:
            return failed(f"the last backup failed, and there is no other: {known.problem}", hint=_NOW)
        if interval_h:
            return warned("no backup has been made yet", hint=_NOW)
        return skipped(
            "backups are off, and none has been made",
            hint="Set backup.interval_h, or run `agentctx backup FILE` regularly.",
        )
    age_ms, path = now - known.last.made, known.last.path
    summary = f"the last verified backup is {duration(max(0, age_ms) / 1_000)} old"
    described = f"{counted(known.last.entries, 'entry', 'entries')}, {size(known.last.bytes)}, {path}"
    if not is_there:
        return warned(f"{summary}, but its file is gone", detail=path, hint=_NOW)
    is_overdue = interval_h and age_ms > OVERDUE_INTERVALS * interval_h * MS_PER_HOUR
    if known.problem or is_overdue:
        why = f"a later one failed: {known.problem}" if known.problem else f"expected every {interval_h:g} h"
        return warned(f"{summary}; {why}", detail=described, hint=_NOW)
    return passed(summary, detail=described)
