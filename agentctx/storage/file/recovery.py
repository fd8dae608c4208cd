"""Reopens and verifies the database after a disk failure, before anything more is acknowledged.

After a failed sync, the kernel may have dropped the unwritten data and report the next sync as a success, and
SQLite continues as if nothing had happened. So nothing in memory is trusted: every connection is closed, a
new one reads the WAL from its start, checksum by checksum, everything acknowledged must be there, and all of
it is written and synced again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from agentctx.errors import StorageFailed, StorageFull
from agentctx.storage.file.checkpoint import Mode, checkpoint, wal_state
from agentctx.storage.file.connection_thread import ConnectionThread
from agentctx.storage.file.driver import Connection
from agentctx.storage.file.readers import Readers

PATIENCE_MS: Final = 1_000
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0

_PROBE_BYTES: Final = 64 * 1024
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_WAL_HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24


def pause_s(attempts: int) -> float:
    """Return how many seconds to wait after this many failed attempts."""
    return min(FIRST_PAUSE_S * 2.0 ** min(attempts, 16), LONGEST_PAUSE_S)


@dataclass(frozen=True, slots=True)
class _AcknowledgedEnd:
    """The end of the last acknowledged transaction in the WAL."""

    frames: int
    page_bytes: int

    @property
    def wal_bytes(self) -> int:
        return _WAL_HEADER_BYTES + self.frames * (_FRAME_HEADER_BYTES + self.page_bytes)


class Recovery:
    """One recovery of one database, in as many attempts as necessary."""

    def __init__(self, path: Path, others: Readers | None) -> None:
        self._path = path
        self._wal = path.with_name(path.name + "-wal")
        self._others = others
        self._acknowledged: _AcknowledgedEnd | None = None

    async def attempt(self, writing: ConnectionThread) -> ConnectionThread:
        """Replace the writing connection: close `writing` and return the new one.

        While the disk still fails, the other connections stay open.

        Raises:
            StorageFull: there is no space.
            StorageFailed: the disk still fails, or acknowledged data is no longer on it.
        """
        await asyncio.to_thread(probe_disk, self._path.parent)
        if self._acknowledged is None:
            self._acknowledged = await writing.run(_acknowledged)
        # The last connection to close must be read-only: a writing one would checkpoint and remove the WAL.
        anchor = await ConnectionThread.open(self._path, readonly=True)
        try:
            await anchor.run(_touch)
            # Long reads can be repeated; saves have to wait for this.
            async with self._others.paused(insists=True) if self._others else contextlib.nullcontext():
                await writing.close()
                await anchor.close()
                return await self._reopen(self._acknowledged)
        finally:
            await anchor.close()

    async def _reopen(self, acknowledged: _AcknowledgedEnd) -> ConnectionThread:
        await asyncio.to_thread(_cut, self._wal, acknowledged.wal_bytes)
        thread = await ConnectionThread.open(self._path)
        try:
            await thread.run(partial(_verify, acknowledged=acknowledged))
            await thread.run(partial(require_checkpoint, mode="FULL"))
            # Everything acknowledged is now in the database and synced; the WAL is no longer needed.
            self._acknowledged = _AcknowledgedEnd(0, acknowledged.page_bytes)
            await thread.run(require_checkpoint)
        except BaseException:
            await close_keeping_wal(thread, self._path)
            raise
        return thread


def probe_disk(folder: Path) -> None:
    """Write, sync and remove a small file. Blocks.

    Raises:
        StorageFull: there is no space in the folder.
        StorageFailed: the file cannot be written or synced.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * _PROBE_BYTES)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise StorageFull("No space left for the database.") from error
        reason = error.strerror or type(error).__name__
        raise StorageFailed(
            f"The disk of the database still fails: {reason}",
            hint="Check the disk and its cables or mount; saving resumes automatically.",
        ) from error


def _acknowledged(connection: Connection) -> _AcknowledgedEnd:
    # SQLite counts a transaction's frames only once they are synced, so a failed one is not included.
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return _AcknowledgedEnd(wal_state(connection).frames, page_bytes)


def _touch(connection: Connection) -> None:
    """Make the connection take part in the WAL, which begins with its first read."""
    connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()


def _cut(wal: Path, size: int) -> None:
    """Truncate what was never acknowledged: reading the WAL would bring it back.

    By name, since closing a descriptor of a database's file can drop the locks of others.
    """
    try:
        if wal.stat().st_size > size:
            os.truncate(wal, size)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageFailed(f"Cannot truncate the WAL of the database: {error.strerror}.") from error


def _verify(connection: Connection, *, acknowledged: _AcknowledgedEnd) -> None:
    _touch(connection)
    if wal_state(connection).frames < acknowledged.frames:
        raise StorageFailed(
            "The disk has lost transactions that were acknowledged; nothing more is saved.",
            hint="Stop the daemon, check the disk, run `agentctx doctor` and restore a backup if it says so.",
        )


def require_checkpoint(connection: Connection, mode: Mode = "TRUNCATE") -> None:
    """Move everything from the WAL into the database. Raises `StorageFailed` if a reader prevents it."""
    if not checkpoint(connection, mode, patience_ms=PATIENCE_MS):
        raise StorageFailed("Another program is reading the database, so its WAL cannot be emptied.")


async def close_keeping_wal(thread: ConnectionThread, path: Path) -> None:
    """Close a writing connection without the checkpoint that the last closing connection makes.

    After a failed sync this checkpoint could seem to succeed, and the WAL would be removed.
    """
    try:
        anchor = await ConnectionThread.open(path, readonly=True)
    except StorageFailed:
        await thread.close()
        return
    try:
        with contextlib.suppress(StorageFailed):
            await anchor.run(_touch)
    finally:
        await thread.close()
        await anchor.close()
