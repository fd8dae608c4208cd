"""Checks the record of the daemon's last start."""

from __future__ import annotations

from pathlib import Path

from agentctx.doctor.check import Check, Finding, blocking, passed, skipped, warned
from agentctx.host.start_record import RECORD_NAME, StartRecord, read_record
from agentctx.times import parse_time

SLOW_START_MS = 60_000


def last_start_check(folder: Path, *, is_running: bool, now: int) -> Check:
    """Return the check. `is_running`: a daemon holds the lock of the folder. `now`: ms since the epoch."""

    def look() -> Finding:
        try:
            record = read_record(folder)
        except ValueError:
            return warned(
                f"{folder / RECORD_NAME} is not readable",
                hint="The data is not affected; the next start of the daemon replaces it.",
            )
        return judge_start(record, is_running=is_running, now=now)

    return Check(id="daemon.last_start", run=blocking(look))


def judge_start(record: StartRecord | None, *, is_running: bool, now: int) -> Finding:
    if record is None:
        return skipped("no daemon was started on this data folder yet")
    logged = "; ".join(record.logged)
    if record.state == "failed":
        return _failed(record, logged)
    if record.state == "stopped":
        return passed(f"started {record.started}, stopped {record.ended}", detail=logged)
    if not is_running:
        return _cut_off(record, logged)
    if record.state == "ready":
        return passed(f"ready since {record.ready}", detail=logged)
    return _under_way(record, logged, waited_ms=now - parse_time(record.started, now=now))


def _failed(record: StartRecord, logged: str) -> Finding:
    when = "died" if record.ready else "failed"
    return warned(
        f"the last start, {record.started}, {when}: {record.message} ({record.code})",
        detail=logged,
        hint=record.hint or "The daemon's log has the details; then start it again.",
    )


def _cut_off(record: StartRecord, logged: str) -> Finding:
    if record.state == "ready":
        return warned(
            f"the daemon ready since {record.ready} (pid {record.pid}) ended without stopping cleanly",
            detail=logged,
            hint="It was killed or lost power; nothing acknowledged is lost. Start it again. If this happens "
            "often, check `journalctl -k` for out-of-memory kills.",
        )
    return warned(
        f"the last start, {record.started}, never became ready",
        detail=logged,
        hint="Start it again and read its log to see where it stops.",
    )


def _under_way(record: StartRecord, logged: str, *, waited_ms: int) -> Finding:
    if waited_ms < SLOW_START_MS:
        return passed(f"starting since {record.started}", detail=logged)
    return warned(
        f"starting since {record.started}, and still not ready",
        detail=logged,
        hint=f"Check its log; if it hangs, stop it with `kill {record.pid}` and start it again.",
    )
