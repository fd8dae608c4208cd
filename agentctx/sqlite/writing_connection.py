"""The connection that writes, and its files: brought back when the disk has failed or the files are gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import structlog

from agentctx.errors import StorageFailed
from agentctx.sqlite.connection_thread import ConnectionThread, finish
from agentctx.sqlite.open_files import FilesAtPath, OpenFiles, Remedy, choose_remedy
from agentctx.sqlite.recovery import Pausable, Recovery, close_keeping_wal
from agentctx.sqlite.rescue import Rescue

T = TypeVar("T")

log = structlog.get_logger("agentctx.sqlite")


class WritingConnection:
    """The one writing connection of a database. Its user makes sure that one method runs at a time."""

    def __init__(self, thread: ConnectionThread, path: str | Path) -> None:
        self.thread = thread
        self.path = path = Path(path).absolute()
        self.others: Pausable | None = None
        """The other connections of this process: all must be closed to reread the disk."""
        self._is_open = True
        self._files = OpenFiles(path)
        self._rescue = Rescue(self._files)

    @classmethod
    async def open(cls, path: str | Path) -> WritingConnection:
        """Open a database, which is made if it is missing. Raises as `driver.open_connection`."""
        return cls(await ConnectionThread.open(path), path)

    @property
    def is_open(self) -> bool:
        """False while it was closed on purpose, with everything in the database file."""
        return self._is_open

    @property
    def moved_to(self) -> Path | None:
        """Where the open database is, if it was moved away from its path."""
        return self._files.facts().moved_to

    def loss(self) -> StorageFailed | None:
        """What has happened to its files; None while they are in their place. Blocks for microseconds."""
        return self._files.loss()

    async def close_for(self, work: Callable[[Path], T]) -> T:
        """Close it and run `work` in a thread, also if the caller is cancelled. `reopen` it afterwards."""
        await self.thread.close()
        self._is_open = False
        self._files.forget_side_files()
        return await finish(asyncio.ensure_future(asyncio.to_thread(work, self.path)))

    async def reopen(self) -> None:
        """Open it again, if it is closed.

        Raises:
            StorageFailed: that failed, or the database is not at its path.
        """
        if not self._is_open:
            self.thread = await self._connected()
            self._is_open = True

    async def _connected(self) -> ConnectionThread:
        if fault := self._files.loss():
            raise fault
        thread = await ConnectionThread.open(self.path)
        if fault := self._files.loss():
            await thread.close()
            raise fault
        return thread

    async def recover(self, recovery: Recovery) -> None:
        """Bring the database back to its path if it is not there; else reopen and verify it.

        Raises:
            StorageFull, StorageFailed: not this time.
        """
        facts = await asyncio.to_thread(self._files.facts)
        if choose_remedy(facts) is not Remedy.NONE:
            await self._rescue.attempt(facts, self.thread, self.others, self._open_what_is_there)
        elif self._is_open:
            self.thread = await recovery.attempt(self.thread)
        else:
            await self.reopen()
        self._files.forget_side_files()

    async def _open_what_is_there(self) -> None:
        self._is_open = False
        await asyncio.to_thread(self._follow_files)
        await self.reopen()

    def _follow_files(self) -> None:
        """From now on what is at the path is the database."""
        files, self._files = self._files, OpenFiles(self.path)
        self._rescue = Rescue(self._files)
        files.close()

    async def close(self, *, is_sound: bool) -> None:
        """Close it; what has no name any more is written out first. `is_sound`: the disk has not failed."""
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
            with contextlib.suppress(OSError):  # the log may be on the disk that fails
                log.critical("database_not_rescued", problem=error.message, hint=error.hint)
