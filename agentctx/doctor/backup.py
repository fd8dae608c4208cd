"""How old is the last backup that was verified."""

from __future__ import annotations

from pathlib import Path

from agentctx.config.schema import BackupSettings
from agentctx.doctor.check import Check, Finding, blocking, failed, passed, skipped, warned
from agentctx.storage.backups import Backup, BackupRecord, read_record
from agentctx.times import Clock
from agentctx.wording import age, counted, size

LATE = 2.0
"""Intervals after which a missing backup is reported."""
MS_PER_HOUR = 3_600_000
_NOW = "Make one now with `agentctx backup`; the daemon's log says why it made none."


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
    """`is_there`: the file of the last verified backup still exists."""
    if known.last is None:
        return _judge_none(known.problem, interval_h)
    summary = f"the last verified backup is {age(max(0, now - known.last.made))} old"
    if not is_there:
        return warned(f"{summary}, but its file is gone", detail=known.last.path, hint=_NOW)
    if known.problem:
        return warned(f"{summary}; a later one failed: {known.problem}", detail=_about(known.last), hint=_NOW)
    if interval_h and now - known.last.made > LATE * interval_h * MS_PER_HOUR:
        return warned(f"{summary}; expected every {interval_h:g} h", detail=_about(known.last), hint=_NOW)
    return passed(summary, detail=_about(known.last))


def _judge_none(problem: str, interval_h: float) -> Finding:
    if problem:
        return failed(f"the last backup failed, and there is no other: {problem}", hint=_NOW)
    if interval_h:
        return warned("no backup has been made yet", hint=_NOW)
    return skipped(
        "backups are off, and none has been made",
        hint="Set backup.interval_h, or run `agentctx backup FILE` regularly.",
    )


def _about(backup: Backup) -> str:
    return f"{counted(backup.entries, 'entry', 'entries')}, {size(backup.bytes)}, {backup.path}"
