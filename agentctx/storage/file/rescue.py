"""Rescues an open database whose files were removed, replaced or moved, and reopens it at its path."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import structlog

from agentctx.errors import StorageFailed
from agentctx.storage.file.connection_thread import ConnectionThread
from agentctx.storage.file.copy import check_pages, copy_file, copy_pages, file_digest, keep_copy, sync_folder
from agentctx.storage.file.open_files import (
    FilesAtPath,
    FileStatus,
    OpenFiles,
    Remedy,
    choose_remedy,
    moved_away,
)
from agentctx.storage.file.readers import Readers
from agentctx.storage.file.recovery import require_checkpoint
from agentctx.times import compact_time, wall_clock

Reopen: TypeAlias = Callable[[], Awaitable[None]]

log = structlog.get_logger("agentctx.sqlite")

RESCUED: Final = ".rescued-"
"""Part of the name of a rescued copy, followed by a time."""
_REPLACED: Final = ".replaced-"


class Rescue:
    """One rescue of one database, in as many attempts as necessary. Nothing may write in the meantime."""

    def __init__(self, files: OpenFiles) -> None:
        self._files = files
        self._path = files.path
        self._saved: Path | None = None
        """The copy beside the path, complete and verified."""
        self._is_complete = False
        """Whether the database file, wherever it is, is complete without the WAL."""

    async def attempt(
        self,
        facts: FilesAtPath,
        writing: ConnectionThread,
        others: Readers | None,
        reopen: Reopen,
    ) -> None:
        """Apply the remedy, close `writing`, and `reopen` the file that is then at the path.

        `writing` may already be closed, with everything in the database file. `others` are opened last,
        because a copy has no WAL before it is opened for writing.

        Raises:
            StorageFull: there is no space for the copy.
            StorageFailed: it failed, or the operator has to act first, as the message and hint explain.
        """
        with _disk_errors(self._path):
            await self._apply(facts, writing, others, reopen)

    async def _apply(
        self, facts: FilesAtPath, writing: ConnectionThread, others: Readers | None, reopen: Reopen
    ) -> None:
        match choose_remedy(facts):
            case Remedy.NONE:
                return
            case Remedy.RENEW_WAL:
                await self._renew_wal(writing, others, reopen)
            case Remedy.WRITE_OUT:
                await self._write_out(writing, others, reopen)
            case Remedy.WRITE_BESIDE:
                saved = await self._save(writing)
                await asyncio.to_thread(self._remove_our_side_files)
                raise self._already_exists(saved)
            case Remedy.AWAIT_RETURN:
                await self._complete(writing)
                if facts.database is FileStatus.OTHER:
                    await asyncio.to_thread(self._remove_our_side_files)
                raise moved_away(facts, self._path)

    async def save(self, facts: FilesAtPath, writing: ConnectionThread) -> None:
        """Make a last attempt before everything is closed, which leaves a complete file.

        Raises:
            StorageFull, StorageFailed: the data is lost.
        """
        with _disk_errors(self._path):
            if choose_remedy(facts) is Remedy.WRITE_OUT:
                await self._put_in_place(await self._save(writing))
            elif choose_remedy(facts) is Remedy.WRITE_BESIDE:
                await self._save(writing)
                await asyncio.to_thread(self._remove_our_side_files)
            elif choose_remedy(facts) is Remedy.AWAIT_RETURN:
                await self._complete(writing)

    async def _renew_wal(self, writing: ConnectionThread, others: Readers | None, reopen: Reopen) -> None:
        async with _paused(others):
            if writing.is_open:
                await writing.run(require_checkpoint)
            await asyncio.to_thread(self._move_foreign_side_files)
            await writing.close()
            await reopen()

    async def _write_out(self, writing: ConnectionThread, others: Readers | None, reopen: Reopen) -> None:
        await self._put_in_place(await self._save(writing))
        async with _paused(others):
            await writing.close()
            await reopen()

    async def _save(self, writing: ConnectionThread) -> Path:
        """Return a verified copy of the open database, beside the path."""
        if self._saved is None:
            target = self._path.with_name(f"{self._path.name}{RESCUED}{compact_time(wall_clock())}")
            await asyncio.to_thread(_make_folder, target.parent)
            with contextlib.suppress(StorageFailed):  # the copy includes the WAL anyway
                await self._complete(writing)
            if writing.is_open:
                await writing.run(partial(copy_pages, target=target))
                copied = await asyncio.to_thread(keep_copy, target)
                size = copied.bytes
            else:
                size = await asyncio.to_thread(self._copy_closed, target)
            self._saved = target
            log.warning("database_rescued", path=str(target), bytes=size)
        return self._saved

    def _copy_closed(self, target: Path) -> int:
        """Copy the file that is left open without a connection; everything is in it."""
        source = self._files.source
        if source is None:
            raise StorageFailed(f"{self._path} is gone, and was not open.", hint="Restore a backup.")
        try:
            copied = copy_file(source, target, digest=file_digest(source))
        except OSError as error:
            raise StorageFailed(f"Cannot read the rest of {self._path}: {error.strerror}.") from error
        check_pages(target)
        return copied.bytes

    async def _put_in_place(self, saved: Path) -> None:
        try:
            await asyncio.to_thread(self._link, saved)
        except FileExistsError:
            raise self._already_exists(saved) from None
        except OSError as error:
            self._saved = None  # it may have been removed, so the next attempt makes it again
            raise StorageFailed(f"Cannot move {saved} into place: {error.strerror}.") from error

    def _link(self, saved: Path) -> None:
        """Give the copy the name of the database, unless that name is taken by now."""
        # SQLite would use an existing WAL for the copy.
        self._remove_our_side_files()
        self._move_foreign_side_files()
        os.link(saved, self._path)
        saved.unlink()
        sync_folder(self._path.parent)

    async def _complete(self, writing: ConnectionThread) -> None:
        if writing.is_open and not self._is_complete:
            await writing.run(require_checkpoint)
        self._is_complete = True

    def _remove_our_side_files(self) -> None:
        for path in self._files.side_files(FileStatus.OURS):
            path.unlink(missing_ok=True)

    def _move_foreign_side_files(self) -> None:
        for path in self._files.side_files(FileStatus.OTHER):
            path.replace(path.with_name(f"{path.name}{_REPLACED}{compact_time(wall_clock())}"))

    def _already_exists(self, saved: Path) -> StorageFailed:
        return StorageFailed(
            f"{self._path} was replaced by another file; the open database is saved as {saved.name}.",
            hint="To use the other file, restart the daemon. To return to the saved one, stop the daemon and "
            f"run `agentctx restore {saved}`.",
        )


@contextlib.contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageFailed(
            f"Cannot restore {path}: {error.strerror or error}.",
            hint="Check the owner and mode of its folder; agentctx keeps trying.",
        ) from error


def _paused(others: Readers | None) -> contextlib.AbstractAsyncContextManager[None]:
    return others.paused(insists=True) if others else contextlib.nullcontext()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageFailed(
            f"The folder {folder} is gone and cannot be created: {error.strerror}.",
            hint="Create it for the daemon's user; the open database is written there, and saving resumes.",
        ) from error
