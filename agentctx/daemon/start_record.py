"""Records how the daemon's start went in its data folder, for `agentctx doctor` to read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from agentctx import __version__
from agentctx.doctor.daemon import RECORD_NAME, StartRecord, StartState
from agentctx.errors import AgentctxError
from agentctx.times import Clock, format_time, wall_clock

log = structlog.get_logger("agentctx.daemon")


@contextmanager
def recorded_start(
    data_dir: Path, socket: Path, *, is_activated: bool = False, clock: Clock = wall_clock
) -> Iterator[StartRecorder]:
    """Record a start and how it ends. Enter it only while holding the lock of the data folder.

    `is_activated`: whether systemd created the socket.

    A failure to write the record is logged and does not prevent the start.
    """
    recorder = StartRecorder(data_dir / RECORD_NAME, socket, clock, is_activated=is_activated)
    try:
        yield recorder
    except asyncio.CancelledError:
        recorder.stopped()
        raise
    except BaseException as error:
        recorder.failed(error)
        raise
    else:
        recorder.stopped()


class StartRecorder:
    """Writes the record of one start; created by `recorded_start`."""

    def __init__(self, path: Path, socket: Path, clock: Clock, *, is_activated: bool = False) -> None:
        self._path = path
        self._clock = clock
        self._record = StartRecord(
            state="starting",
            version=__version__,
            pid=os.getpid(),
            socket=str(socket.absolute()),
            is_activated=is_activated,
            started=self._now(),
        )
        self._write()

    def ready(self) -> None:
        """Record that requests are being served."""
        self._record_state("ready", ready=self._now())

    def stopped(self) -> None:
        self._record_state("stopped", ended=self._now())

    def failed(self, error: BaseException) -> None:
        known = _as_own_error(error)
        reason = {"code": known.code, "message": known.message, "hint": known.hint}
        self._record_state("failed", ended=self._now(), **reason)

    def _record_state(self, state: StartState, **changes: Any) -> None:
        self._record = replace(self._record, state=state, **changes)
        self._write()

    def _write(self) -> None:
        try:
            _write_private(self._path, self._record.to_json())
        except OSError as error:
            log.warning("start_not_recorded", path=str(self._path), reason=error.strerror)

    def _now(self) -> str:
        return format_time(self._clock())


def _as_own_error(error: BaseException) -> AgentctxError:
    """Return the error if it is ours, the first of ours in a group, else a new one that names its class."""
    if isinstance(error, BaseExceptionGroup):
        leaves = [_as_own_error(each) for each in error.exceptions]
        return next((leaf for leaf in leaves if type(leaf) is not AgentctxError), leaves[0])
    if isinstance(error, AgentctxError):
        return error
    return AgentctxError(
        f"The daemon died of {type(error).__name__}.", hint="Its log has the traceback; please report it."
    )


def _write_private(path: Path, text: str) -> None:
    """Replace a file atomically, private to its owner; without a sync, so as not to delay the start."""
    new = path.with_name(f"{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(new, flags, 0o600), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
    new.replace(path)
