"""The record of the daemon's last start, kept beside its data: its format."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agentctx.errors import InvalidInput
from agentctx.times import parse_time

RECORD_NAME = "last-start.json"

StartState: TypeAlias = Literal["starting", "ready", "stopped", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRecord:
    """How the last start went. Times are RFC 3339 in UTC.

    starting ──► ready ──► stopped
        └──────────┴─────► failed
    """

    state: StartState
    version: str
    pid: int
    socket: str
    is_activated: bool = False
    """Whether systemd made the socket and listens on it, also while no daemon runs."""
    started: str
    served: bool = False
    """Whether any daemon was ever ready on this data folder, so that a database belongs into it."""
    ready: str | None = None
    """When requests were served; None if they never were."""
    ended: str | None = None
    code: str = ""
    """Why it failed: code, message and hint of the error."""
    message: str = ""
    hint: str = ""
    logged: tuple[str, ...] = ()
    """The first warnings and errors of the log before it was ready, as `level event: reason`."""

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, indent=2) + "\n"


def read_record(folder: Path) -> StartRecord | None:
    """The record in a data folder; None when there is none.

    Raises:
        ValueError: it is not one.
        OSError: it cannot be read.
    """
    try:
        text = (folder / RECORD_NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return record_of(json.loads(text))


def record_of(value: Any) -> StartRecord:
    """A record from its JSON. Raises `ValueError`."""
    known = {field.name for field in fields(StartRecord)}
    try:
        record = StartRecord(**{name: item for name, item in value.items() if name in known})
        parse_time(record.started, now=0)
        return StartRecord(**{**asdict(record), "logged": tuple(map(str, record.logged))})
    except (AttributeError, TypeError, InvalidInput) as error:
        raise ValueError("not a record of a start") from error
