"""Records how the daemon's start went in its data folder, for `agentctx doctor` to read."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import structlog

from agentctx import __version__
from agentctx.doctor.daemon import RECORD_NAME, StartRecord, StartState
from agentctx.errors import AgentctxError
from agentctx.times import Clock, format_time, wall_clock

log = structlog.get_logger("agentctx.daemon")


class StartRecorder:
    """Records a start and how it ends. Enter it only while holding the lock of the data folder.

    `is_activated`: whether systemd created the socket.

    A failure to write the record is logged and does not prevent the start.
    """

    def __init__(
        self, data_dir: Path, socket: Path, *, is_activated: bool = False, clock: Clock = wall_clock
    ) -> None:
        self._path = data_dir / RECORD_NAME
        self._clock = clock
        self._record = StartRecord(
            state="starting",
            version=__version__,
            pid=os.getpid(),
            socket=str(socket.absolute()),
            is_activated=is_activated,
            started=self._now(),
        )

    def __enter__(self) -> Self:
        self._write()
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or isinstance(error, asyncio.CancelledError):
            self._note("stopped", ended=self._now())
            return
        known = _as_own_error(error)
        reason = {"code": known.code, "message": known.message, "hint": known.hint}
        self._note("failed", ended=self._now(), **reason)

    def ready(self) -> None:
        """Record that requests are being served."""
        self._note("ready", ready=self._now())

    def _note(self, state: StartState, **changes: Any) -> None:
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
