"""Backups of a running database."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from functools import partial
from pathlib import Path
from typing import Final

from agentctx.errors import AgentctxError
from agentctx.sqlite import connection_thread
from agentctx.sqlite.copy import CopyPace, copy_pages, discard_copy
from agentctx.storage.backups import Backup
from agentctx.storage.sqlite.backup import backup_file
from agentctx.storage.sqlite.connections import SqlitePart
from agentctx.storage.sqlite.search import residue

GIVES_WAY: Final = 3
"""How often a backup restarts because something was forgotten."""


class SqliteBackups(SqlitePart):
    """`BackupStorage` on the SQLite file."""

    async def write(self, target: Path) -> Backup:
        async with self.db.one_check:
            await asyncio.to_thread(backup_file.check_target, target, self.db.path)
            await self._copy(target)
            return await self._keep(target)

    async def _copy(self, target: Path) -> None:
        """Copy the database. Forgetting closes the connection; the copy then restarts, a few times."""
        is_made, attempts = False, 0
        try:
            while not is_made:
                await self.db.tidying.wait_until_wiped()
                stop = threading.Event()
                pace = CopyPace(stop, rests=True)
                write = partial(copy_pages, target=target, pace=pace, finish=residue.remove_all)
                is_made = await self.db.writer.copy(write, stop, gives_way=attempts < GIVES_WAY)
                attempts += 1
        except asyncio.CancelledError:  # also if the copy was just finished
            await asyncio.to_thread(discard_copy, target)
            raise

    async def _keep(self, target: Path) -> Backup:
        stop = threading.Event()
        keep = partial(backup_file.keep_backup, target, now=self.db.clock(), pace=CopyPace(stop, rests=True))
        keeping = asyncio.ensure_future(asyncio.to_thread(keep))
        try:
            await asyncio.wait([keeping])
        except asyncio.CancelledError:
            stop.set()
            with contextlib.suppress(AgentctxError):  # the caller gets the cancellation
                await connection_thread.finish(keeping)
            raise
        return keeping.result()
