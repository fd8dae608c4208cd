"""Watches the database files, and notes a moved folder for the next start."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import structlog

from agentctx.doctor.database_file import database_facts, missing, moved_note
from agentctx.storage.base import DatabaseFile

log = structlog.get_logger("agentctx.daemon")

CHECK_INTERVAL_S: Final = 1.0


def expect_database(database: Path) -> None:
    """Check for a lost database before an empty one is created in its place.

    Raises:
        DatabaseMissing: a daemon has served this database before, and it no longer exists.
    """
    place = database_facts(database)
    if problem := missing(place):
        raise problem
    if place.moved_to:
        moved_note(database.parent).unlink(missing_ok=True)
    for copy in place.rescue_copies:
        log.warning("rescued_copy_remains", path=str(copy), hint="See files.database of `agentctx doctor`.")


class FileWatcher:
    """Makes the storage check its files, and notes beside the data folder where they were moved."""

    def __init__(self, files: DatabaseFile, data_dir: Path) -> None:
        self._files = files
        self._note = moved_note(data_dir)
        self._noted: Path | None = None

    async def watch(self, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Check every `CHECK_INTERVAL_S`. Runs until cancelled."""
        while True:
            await sleep(CHECK_INTERVAL_S)
            await self._files.look()
            moved_to = self._files.moved_to
            if moved_to != self._noted:
                await asyncio.to_thread(self._write, moved_to)
                self._noted = moved_to

    def _write(self, moved_to: Path | None) -> None:
        """Write the note; without it, a start after a kill would take a moved folder for an unused one."""
        try:
            self._note.unlink(missing_ok=True)
            if moved_to is not None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                with os.fdopen(os.open(self._note, flags, 0o600), "w", errors="surrogateescape") as file:
                    file.write(f"{moved_to}\n")
        except OSError as error:
            log.warning("move_not_noted", path=str(self._note), reason=error.strerror)
