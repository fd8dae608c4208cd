"""Watches the database files, and notes for the next start that there was a database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import structlog

from agentctx.doctor.database_file import served_note
from agentctx.errors import DatabaseMissing
from agentctx.storage.base import Storage

log = structlog.get_logger("agentctx.daemon")

CHECK_INTERVAL_S: Final = 1.0


def note_served(database: Path) -> None:
    """Note outside of the data folder that a daemon served from it, so that no start begins empty.

    It could where a disk is not mounted, or a server's storage.url is lost.
    """
    note = served_note(database)
    try:
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        note.write_text(f"{database}\n", encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        log.warning("database_not_noted", path=str(note), reason=error.strerror)


async def watch_files(
    storage: Storage, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> DatabaseMissing:
    """Look at the database files, if any, every `CHECK_INTERVAL_S`; return once they are gone and copied."""
    while not isinstance(fault := storage.fault, DatabaseMissing):
        await sleep(CHECK_INTERVAL_S)
        if storage.file:
            await storage.file.look()
    return fault
