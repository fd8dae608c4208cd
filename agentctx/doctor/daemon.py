"""Checks that the daemon answers, has the same version, and how its last start went, by its record."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agentctx import __version__
from agentctx.config.bounded_files import read_bounded
from agentctx.config.commit import build_name, own_commit
from agentctx.doctor.check import Finding, check, failed, passed, skipped, warned
from agentctx.doctor.contexts import NOT_OURS, Contact, Machine
from agentctx.errors import AlreadyRunning, DaemonUnreachable, InvalidInput
from agentctx.times import parse_time, wall_clock
from agentctx.wire import StatusReply

RECORD_NAME = "last-start.json"
SLOW_START_MS = 60_000

_START = (
    "Start it with `agentctx serve`. If it listens elsewhere, name its socket with --socket or in "
    "AGENTCTX_SOCKET."
)


@check(Machine, "daemon.answers", lambda machine: machine.contact)
def judge_answer(contact: Contact) -> Finding:
    if contact.status is not None:
        return passed(f"pid {contact.status.pid} answers on {contact.socket}")
    if contact.is_denied:
        return _judge_grant(contact)
    refusal = contact.refusal or DaemonUnreachable(f"No daemon answers on {contact.socket}.")
    owner = contact.lock_refusal
    if contact.has_answered:
        return failed(
            f"a daemon answers on {contact.socket}, but not with its status: {refusal.message}",
            hint="See the database checks.",
        )
    if isinstance(owner, AlreadyRunning) and not contact.is_service:
        # It has the data, but does not answer on this socket.
        if contact.other_socket:
            return failed(
                f"the daemon listens elsewhere, on {contact.other_socket}",
                detail=owner.message,
                hint=f"Pass --socket {contact.other_socket}, or set AGENTCTX_SOCKET.",
            )
        return failed(
            "a daemon has the data but does not answer: it is starting, stopping, or hangs",
            detail=f"{owner.message} {refusal.message}",
            hint="Try again in a moment. If this persists, stop that process and start the daemon again.",
        )
    is_absent = isinstance(refusal, DaemonUnreachable) and not (contact.is_closed or contact.is_service)
    absent = warned("no daemon runs", detail=refusal.message, hint=_START)
    return absent if is_absent else failed(refusal.message, hint=refusal.hint)


def _judge_grant(contact: Contact) -> Finding:
    if contact.has_grant:
        return passed(f"a daemon answers on {contact.socket}; you may use it")
    return failed(
        f"a daemon answers on {contact.socket}, but this user has no grant",
        hint="Ask its operator for one: sudo agentctx access grant USER NAMESPACE",
    )


@check(Machine, "daemon.version")
async def check_version(machine: Machine) -> Finding:
    if machine.contact.is_denied:
        return skipped(NOT_OURS)
    return judge_version(machine.contact.status, __version__, own_commit())


def judge_version(status: StatusReply | None, version: str, commit: str) -> Finding:
    if status is None:
        return skipped("no daemon answers")
    theirs = build_name(status.version, status.commit)
    ours = build_name(version, commit)
    if theirs == ours:
        return passed(f"both are {ours}")
    return warned(
        f"the daemon is {theirs}, this command {ours}",
        hint="Restart the daemon: it runs what was installed when it started.",
    )


StartState: TypeAlias = Literal["starting", "ready", "stopped", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRecord:
    """How the last start went. Times are in RFC 3339, UTC.

    starting ──► ready ──► stopped
        └──────────┴─────► failed
    """

    state: StartState
    version: str
    pid: int
    socket: str
    is_activated: bool = False
    """Whether systemd created the socket and listens on it, even while no daemon runs."""
    started: str
    ready: str | None = None
    """When requests were first served; None if never."""
    ended: str | None = None
    code: str = ""
    """Code of the error that made the start fail; `message` and `hint` are the error's, too."""
    message: str = ""
    hint: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, indent=2) + "\n"


def read_record(folder: Path) -> StartRecord | None:
    """Return the record in a data folder, or None if there is none.

    Raises:
        ValueError: the file is not a valid record.
        OSError: the file cannot be read.
    """
    try:
        text = read_bounded(folder / RECORD_NAME).decode()
    except FileNotFoundError:
        return None
    return record_of(json.loads(text))


def record_of(value: Any) -> StartRecord:
    """Return the record from its JSON value. Raises `ValueError` if it is invalid."""
    known = {field.name for field in fields(StartRecord)}
    try:
        record = StartRecord(**{name: item for name, item in value.items() if name in known})
        parse_time(record.started, now=0)
        return record
    except (AttributeError, TypeError, InvalidInput) as error:
        raise ValueError("not a record of a start") from error


@check(Machine, "daemon.last_start")
def check_last_start(machine: Machine) -> Finding:
    folder = machine.folder
    try:
        record = read_record(folder)
    except ValueError:
        return warned(
            f"{folder / RECORD_NAME} is not readable",
            hint="The data is not affected; the next start of the daemon replaces it.",
        )
    return judge_start(record, is_running=machine.contact.is_running, now=wall_clock())


def judge_start(record: StartRecord | None, *, is_running: bool, now: int) -> Finding:
    """Judge the record. `is_running`: a daemon holds the lock of the folder. `now`: ms since the epoch."""
    if record is None:
        return skipped("no daemon was started on this data folder yet")
    if record.state == "failed":
        return warned(
            f"the last start, {record.started}, {'died' if record.ready else 'failed'}: "
            f"{record.message} ({record.code})",
            hint=record.hint or "The daemon's log has the details; then start it again.",
        )
    if record.state == "stopped":
        return passed(f"started {record.started}, stopped {record.ended}")
    if not is_running:
        return _judge_end(record)
    if record.state == "ready" or now - parse_time(record.started, now=now) < SLOW_START_MS:
        is_ready = record.state == "ready"
        since = f"ready since {record.ready}" if is_ready else f"starting since {record.started}"
        return passed(since)
    return warned(
        f"starting since {record.started}, and still not ready",
        hint=f"Check its log; if it hangs, stop it with `kill {record.pid}` and start it again.",
    )


def _judge_end(record: StartRecord) -> Finding:
    if record.state == "ready":
        return warned(
            f"the daemon ready since {record.ready} (pid {record.pid}) ended without stopping cleanly",
            hint="It was killed or lost power; nothing acknowledged is lost. Start it again. If this happens "
            "often, check `journalctl -k` for out-of-memory kills.",
        )
    return warned(
        f"the last start, {record.started}, never became ready",
        hint="Start it again and read its log to see where it stops.",
    )
