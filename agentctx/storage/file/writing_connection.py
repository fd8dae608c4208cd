"""The writing connection and its files, restored after a disk failure or when the files are gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import structlog

from agentctx.errors import StorageFailed
from agentctx.storage.file.connection_thread import ConnectionThread, finish
from agentctx.storage.file.open_files import FilesAtPath, OpenFiles, Remedy, choose_remedy
from agentctx.storage.file.readers import Readers
from agentctx.storage.file.recovery import Recovery, close_keeping_wal
from agentctx.storage.file.rescue import Rescue

T = TypeVar("T")

log = structlog.get_logger("agentctx.sqlite")


class WritingConnection:
    """The only writing connection of a database. The caller must run one method at a time."""

    def __init__(self, thread: ConnectionThread, path: str | Path) -> None:
        self.thread = thread
        self.path = path = Path(path).absolute()
        self.others: Readers | None = None
        """The other connections of this process, all of which must be closed to reread the disk."""
        self.is_open = True
        """False while it is closed on purpose, with everything in the database file."""
        self._files = OpenFiles(path)
        self._rescue = Rescue(self._files)

    @classmethod
    async def open(cls, path: str | Path) -> WritingConnection:
        """Open a database, which is created if it is missing. Raises as `driver.open_connection`."""
        return cls(await ConnectionThread.open(path), path)

    @property
    def moved_to(self) -> Path | None:
        """The path of the open database, if it was moved."""
        return self._files.facts().moved_to

    def loss(self) -> StorageFailed | None:
        """Return what has happened to the files; None while they are in place. Blocks for microseconds."""
        return self._files.loss()

    async def close_for(self, work: Callable[[Path], T]) -> T:
        """Close the connection and run `work` in a thread, even if cancelled; call `reopen` afterwards."""
        await self.thread.close()
        self.is_open = False
        self._files.forget_side_files()
        return await finish(asyncio.ensure_future(asyncio.to_thread(work, self.path)))

    async def reopen(self) -> None:
        """Open the connection again, if it is closed.

        Raises:
            StorageFailed: opening failed, or the database is not at its path.
        """
        if not self.is_open:
            self.thread = await self._connected()
            self.is_open = True

    async def _connected(self) -> ConnectionThread:
        if fault := self._files.loss():
            raise fault
        thread = await ConnectionThread.open(self.path)
        if fault := self._files.loss():
            await thread.close()
            raise fault
        return thread

    async def recover(self, recovery: Recovery) -> None:
        """Restore the database to its path if it is not there; otherwise reopen and verify it.

        Raises:
            StorageFull, StorageFailed: this attempt failed.
        """
        facts = await asyncio.to_thread(self._files.facts)
        if choose_remedy(facts) is not Remedy.NONE:
            await self._rescue.attempt(facts, self.thread, self.others, self._open_existing)
        elif self.is_open:
            self.thread = await recovery.attempt(self.thread)
        else:
            await self.reopen()
        self._files.forget_side_files()

    async def _open_existing(self) -> None:
        self.is_open = False
        await asyncio.to_thread(self._follow_files)
        await self.reopen()

    def _follow_files(self) -> None:
        """Use the file at the path as the database from now on."""
        files, self._files = self._files, OpenFiles(self.path)
        self._rescue = Rescue(self._files)
        files.close()

    async def close(self, *, is_sound: bool) -> None:
        """Close the connection, after saving files that lost their name. `is_sound`: the disk works."""
        facts = await asyncio.to_thread(self._files.facts)
        if choose_remedy(facts) is not Remedy.NONE:
            await self._save(facts)
            await self.thread.close()
        elif is_sound:
            await self.thread.close()
        else:
            await close_keeping_wal(self.thread, self.path)
        self._files.close()

    async def _save(self, facts: FilesAtPath) -> None:
        try:
            await self._rescue.save(facts, self.thread)
        except StorageFailed as error:
            with contextlib.suppress(OSError):  # the log may be on the failing disk
                log.critical("database_not_rescued", problem=error.message, hint=error.hint)
