"""Backups of the running daemon: on request, and automatically once a day."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import structlog

from agentctx import wire
from agentctx.config.schema import BackupSettings, Settings
from agentctx.errors import AccessDenied, AgentctxError, StorageFailed, StorageFull
from agentctx.service import audit_notes as notes
from agentctx.service.access.policy import DAEMON
from agentctx.service.base import Peer
from agentctx.service.operations import Operation
from agentctx.storage.backups import (
    AutomaticBackup,
    Backup,
    automatic_backups,
    scheduled_name,
    superseded,
)
from agentctx.storage.base import DatabaseFile, Storage
from agentctx.storage.offline import DATABASE_NAME, size_of
from agentctx.storage.opening import offline_storage, server_of
from agentctx.times import format_time
from agentctx.wire.wording import size

log = structlog.get_logger("agentctx.backup")

FOLDER_NAME: Final = "backups"
MS_PER_HOUR: Final = 3_600_000
BEGINS_S: Final = 300.0
"""How long after its start a daemon makes the first backup: it has more urgent work before."""
RETRY_S: Final = 600.0
"""Delay after a failed backup."""
LONGEST_SLEEP_S: Final = 60.0
"""Upper bound on the time until a resume from suspend or a clock change is noticed."""
SPACE: Final = 2
"""An automatic backup needs this many times the size of the database on its disk."""


@dataclass(frozen=True, slots=True)
class BackupResult:
    """A verified backup, and the paths of the older backups removed after it."""

    backup: Backup
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Backups:
    """Makes backups. `data_dir` has the database, and by default the folder with the files."""

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
        if request.file is not None:
            return backup_reply(BackupResult(await self._file.back_up(Path(request.file))))
        return backup_reply(await self._make(self.settings.backup.keep))

    async def keep_backing_up(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Make a backup whenever one is due; none of a database on a server. Runs until cancelled."""
        interval_ms = round(self.settings.backup.interval_h * MS_PER_HOUR)
        if not interval_ms or server_of(self.settings):
            return
        await sleep(min(BEGINS_S, interval_ms / 1_000))
        while True:
            kept = await self.kept()
            wait_s = (next_due(kept, interval_ms, self.storage.clock()) - self.storage.clock()) / 1_000
            if wait_s > 0:
                await sleep(min(wait_s, LONGEST_SLEEP_S))
            elif not await self._make_logged():
                await sleep(min(RETRY_S, interval_ms / 1_000))

    async def replace_older(self) -> BackupResult | None:
        """Make a backup of what is left after a rewrite, and remove every older automatic one.

        Returns None if there are no automatic backups. Raises `DeadlineExceeded`, `StorageFailed`,
        `StorageFull`: the older ones are still there.
        """
        is_wanted = self.settings.backup.interval_h or await self.kept()
        return await self._make(1) if is_wanted and server_of(self.settings) is None else None

    async def kept(self, *, unfinished_at: int | None = None) -> Sequence[AutomaticBackup]:
        """Return `automatic_backups` of the backup folder; none of a database on a server."""
        if server_of(self.settings):
            return []
        folder = folder_of(self.settings.backup, self.data_dir)
        return await asyncio.to_thread(automatic_backups, folder, unfinished_at=unfinished_at)

    async def holding(self, since: int = 0) -> dict[str, Any]:
        """Return how many automatic backups hold a text saved at `since`, and until when, as fields of a
        reply.
        """
        now = self.storage.clock()
        kept = await self.kept(unfinished_at=now)
        holding = [each for each in kept if each.made >= since or since > now]
        until = replaced_at(holding, self.settings.backup, now)
        return {
            "backups": len(holding),
            "backups_until": None if until is None else format_time(until),
        }

    async def other_copies(self, since: int = 0) -> list[str]:
        """Return the files that may hold what was saved at `since`, and that nobody removes."""
        if server_of(self.settings):
            return []
        folder = folder_of(self.settings.backup, self.data_dir)
        return await asyncio.to_thread(
            offline_storage().other_copies, self.data_dir / DATABASE_NAME, folder, since=since
        )

    async def _make_logged(self) -> bool:
        """Make an automatic backup and log the outcome; return whether it succeeded."""
        folder = folder_of(self.settings.backup, self.data_dir)
        try:
            if problem := await asyncio.to_thread(space_problem, folder, self.data_dir / DATABASE_NAME):
                raise StorageFull(problem, hint=SPACE_HINT)
            made = await self._make(self.settings.backup.keep)
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

    async def _make(self, keep: int) -> BackupResult:
        """Make an automatic backup and remove the older ones beyond the `keep` newest."""
        folder = folder_of(self.settings.backup, self.data_dir)
        await asyncio.to_thread(make_folder, folder)
        written = await self._file.back_up(folder / scheduled_name(self.storage.clock()))
        return await asyncio.to_thread(keep_newest, written, keep)


def next_due(kept: Sequence[AutomaticBackup], interval_ms: int, now: int) -> int:
    """Return when the next backup is due: now if there is none."""
    # A clock that was set back must not delay the backup beyond the interval.
    return min(kept[-1].made, now) + interval_ms if kept else now


def replaced_at(holding: Sequence[AutomaticBackup], settings: BackupSettings, now: int) -> int | None:
    """Return when newer backups will have replaced the newest ones; None without any, or if none are made."""
    interval_ms = math.ceil(settings.interval_h * MS_PER_HOUR)
    if not holding or not interval_ms:
        return None
    return max(next_due(holding, interval_ms, now), now) + (settings.keep - 1) * interval_ms


SPACE_HINT: Final = "Free disk space, or name a folder on another disk with backup.folder."


def space_problem(folder: Path, database: Path) -> str | None:
    """Return why no automatic backup is made, if the disk has too little space for one. Blocks."""
    needed = SPACE * size_of(database)
    on_disk = next(place for place in (folder, *folder.parents) if place.exists())
    if (free := shutil.disk_usage(on_disk).free) >= needed:
        return None
    return f"No backup is made: {size(free)} are free for {folder}, and a backup needs {size(needed)}."


def folder_of(settings: BackupSettings, data_dir: Path) -> Path:
    """Return the default folder for backups."""
    return (settings.folder or data_dir / FOLDER_NAME).absolute()


def keep_newest(written: Backup, keep: int) -> BackupResult:
    """Name a verified backup after its end, and remove all but the `keep` newest. Failures are logged.

    What was committed while it was written is in it, so only the time of its end says what it can contain.
    """
    path = Path(written.path)
    named = path.with_name(scheduled_name(written.made))
    path.replace(named)
    removed = []
    try:
        names = [each.name for each in named.parent.iterdir()]
        for name in superseded(names, keep=keep, verified=named.name):
            named.with_name(name).unlink(missing_ok=True)
            removed.append(str(named.with_name(name)))
    except OSError as error:
        log.warning("old_backups_not_removed", folder=str(named.parent), reason=str(error))
    return BackupResult(replace(written, path=str(named)), tuple(removed))


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
