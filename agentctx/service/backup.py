"""Backups of the running daemon: on request, and automatically at an interval."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from agentctx import wire
from agentctx.config.schema import BackupSettings, Settings
from agentctx.errors import AccessDenied, AgentctxError, DeadlineExceeded, StorageFailed
from agentctx.service import audit_notes as notes
from agentctx.service.access.policy import DAEMON
from agentctx.service.base import Peer
from agentctx.service.operations import Operation
from agentctx.storage.backups import (
    Backup,
    BackupRecord,
    read_record,
    record_failure,
    record_success,
    scheduled_name,
    superseded,
)
from agentctx.storage.base import DatabaseFile, Storage
from agentctx.storage.opening import server_of
from agentctx.times import format_time

log = structlog.get_logger("agentctx.backup")

FOLDER_NAME: Final = "backups"
MS_PER_HOUR: Final = 3_600_000
RETRY_MS: Final = 600_000
"""Delay after a failed backup."""
LONGEST_SLEEP_S: Final = 60.0
"""Upper bound on the time until a resume from suspend or a clock change is noticed."""


@dataclass(frozen=True, slots=True)
class BackupResult:
    """A verified backup, and the paths of the older backups removed after it."""

    backup: Backup
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Backups:
    """Makes backups. `data_dir` has their record, and by default the folder with the files."""

    storage: Storage
    settings: Settings
    data_dir: Path

    @Operation("POST", "/backup", DAEMON, audit=notes.backed_up, errors=(403, 507))
    async def backup(self, request: wire.BackupRequest, peer: Peer) -> wire.BackupReply:
        """Write a backup and verify it, while the daemon serves requests. It may take minutes.

        Only the daemon's own user may choose the file; by default it goes into the backup folder.
        """
        if request.file is not None and peer.uid not in {0, os.geteuid()}:
            raise AccessDenied(
                "Permission denied: only the daemon's user may choose the backup file.",
                hint="Omit the file to write into the daemon's backup folder.",
            )
        made = await self._make(Path(request.file) if request.file is not None else None)
        return backup_reply(made)

    async def keep_backing_up(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Make a backup whenever one is due, if an interval is set. Runs until cancelled."""
        interval_ms = round(self.settings.backup.interval_h * MS_PER_HOUR)
        if interval_ms and (server := server_of(self.settings)):
            log.warning("no_scheduled_backups", reason=f"the database is on a server, {server}")
            return
        while interval_ms:
            now = self.storage.clock()
            known = await asyncio.to_thread(known_backups, self.data_dir)
            is_there = await asyncio.to_thread(last_exists, known)
            due = next_due(known, is_there=is_there, interval_ms=interval_ms, now=now)
            if due > now:
                await sleep(min((due - now) / 1_000, LONGEST_SLEEP_S))
            elif not await self._make_logged():
                # Avoids a busy loop if the failure could not be recorded either.
                await sleep(LONGEST_SLEEP_S)

    async def _make_logged(self) -> bool:
        """Make a scheduled backup and log the outcome; return whether it succeeded."""
        try:
            made = await self._make(None)
        except AgentctxError as error:
            log.error("backup_failed", code=error.code, problem=error.message, hint=error.hint)  # noqa: TRY400 - the hint says what to do
            return False
        log.info("backed_up", file=made.backup.path, bytes=made.backup.bytes, removed=len(made.removed))
        return True

    @property
    def _file(self) -> DatabaseFile:
        if self.storage.file is None:
            raise StorageFailed(
                "A PostgreSQL server is backed up by its operator.",
                hint=f"Run `pg_dump -Fc -d '{server_of(self.settings)}' -f FILE`, or use its own tools.",
            )
        return self.storage.file

    async def _make(self, target: Path | None) -> BackupResult:
        folder = folder_of(self.settings.backup, self.data_dir)
        path = target or folder / scheduled_name(self.storage.clock())
        try:
            if target is None:
                await asyncio.to_thread(make_folder, folder)
            backup = await self._file.back_up(path)
        except (DeadlineExceeded, StorageFailed) as error:
            if target is None:  # a path from the caller may be mistyped, and the caller gets the error
                await asyncio.to_thread(self._note_failure, error)
            raise
        await asyncio.to_thread(note_success, self.data_dir, backup)
        if target is not None:
            return BackupResult(backup)
        removed = await asyncio.to_thread(remove_superseded, folder, self.settings.backup.keep, backup)
        return BackupResult(backup, tuple(removed))

    def _note_failure(self, error: AgentctxError) -> None:
        try:
            record_failure(self.data_dir, error.message, self.storage.clock())
        except (OSError, ValueError) as problem:
            log.warning("backup_not_recorded", reason=str(problem))


def next_due(known: BackupRecord, *, is_there: bool, interval_ms: int, now: int) -> int:
    """Return when the next backup is due: now if there is none or its file is gone (not `is_there`)."""
    due = now
    if known.last is not None and is_there:
        # A clock that was set back must not delay the backup beyond the interval.
        due = min(known.last.made, now) + interval_ms
    if known.failed is not None:
        due = max(due, min(known.failed, now) + min(RETRY_MS, interval_ms))
    return due


def folder_of(settings: BackupSettings, data_dir: Path) -> Path:
    """Return the default folder for backups."""
    return (settings.folder or data_dir / FOLDER_NAME).absolute()


def known_backups(data_dir: Path) -> BackupRecord:
    """Return the backup record of a data folder, or an empty one (and log it) if it cannot be read."""
    try:
        return read_record(data_dir)
    except (OSError, ValueError) as error:
        log.warning("record_of_backups_not_readable", reason=str(error))
        return BackupRecord()


def last_exists(known: BackupRecord) -> bool:
    """Return whether the last backup's file exists."""
    try:
        return known.last is not None and Path(known.last.path).is_file()
    except OSError:
        return False


def note_success(data_dir: Path, backup: Backup) -> None:
    """Record the backup. A failure is only logged, because the backup itself is good."""
    try:
        record_success(data_dir, backup)
    except OSError as error:
        log.warning("backup_not_recorded", reason=str(error))


def remove_superseded(folder: Path, keep: int, verified: Backup) -> list[str]:
    """Remove older backups beyond the `keep` newest; return their paths. Failures are logged."""
    removed = []
    try:
        names = [path.name for path in folder.iterdir()]
        for name in superseded(names, keep=keep, verified=Path(verified.path).name):
            (folder / name).unlink(missing_ok=True)
            removed.append(str(folder / name))
    except OSError as error:
        log.warning("old_backups_not_removed", folder=str(folder), reason=str(error))
    return removed


def backup_reply(made: BackupResult) -> wire.BackupReply:
    backup = made.backup
    return wire.BackupReply(
        file=backup.path,
        made=format_time(backup.made),
        bytes=backup.bytes,
        schema=backup.schema,
        entries=backup.entries,
        versions=backup.versions,
        vectors=backup.vectors,
        removed=list(made.removed),
    )


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageFailed(
            f"Cannot create the backup folder {folder}: {error.strerror}.",
            hint="Set another one with backup.folder.",
        ) from error
