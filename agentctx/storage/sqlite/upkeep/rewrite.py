"""Rewrites the database file, so that it holds no byte of what was deleted.

What is deleted is overwritten in its place at once. Remains are copies that SQLite made when it moved rows to
other pages, and words that FTS5 keeps as keys of its index. Vectors leave no remains, but sqlite-vec never
fills a freed place again, so they are packed, too, when the table is half empty.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
import time
from collections.abc import Coroutine
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from agentctx.errors import AgentctxError, StorageFailed, StorageFull
from agentctx.storage.file.connection_thread import finish
from agentctx.storage.file.copy import CopyPace, copy_without_gaps, discard_copy, partial_of
from agentctx.storage.file.driver import Connection, Error, open_connection, translated
from agentctx.storage.offline import MEBIBYTE
from agentctx.storage.sqlite.connections import SqliteConnections
from agentctx.storage.sqlite.search import word_index
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex

log = structlog.get_logger("agentctx.storage")

T = TypeVar("T")

EVERY_MS: Final = 12 * 3_600_000
"""The file is rewritten at most this often."""
QUIET_S: Final = 300.0
"""It is rewritten when nothing was written for this long,"""
LONGEST_DELAY_S: Final = 11 * 3_600.0
"""or when it has been due for this long: within a day after a forget."""
LOOK_EVERY_S: Final = 600.0
MAX_FREE: Final = 0.25
MIN_FREE_PAGES: Final = 256
"""One megabyte: less is not worth a rewrite."""
VECTORS_PER_STEP: Final = 64
"""Packing this many takes 10 ms, during which saves wait."""
PAGES_PER_STEP: Final = 2_000
_SPARE_BYTES: Final = 64 * MEBIBYTE

# Each version of an entry has a row with a number of its own, so this grows with every row deleted.
_DELETED: Final = """SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'entries'), 0)
    - (SELECT COUNT(*) FROM entries)"""
_LAST: Final = "SELECT name, value FROM scrub WHERE name IN ('rewritten', 'deleted')"
_REMEMBER: Final = "INSERT OR REPLACE INTO scrub (name, value) VALUES (?, ?)"


class Rewriter:
    """Rewrites the file on request, and within a day after something was forgotten."""

    def __init__(self, connections: SqliteConnections) -> None:
        self.problem: str | None = None
        """Why the last rewrite failed."""
        self._db = connections
        self._due_since: float | None = None
        self._not_before = 0.0

    async def step(self) -> bool:
        """Rewrite the file if that is due and nobody saves; return False, as there is never a second step.

        Raises:
            StorageFull, StorageFailed: see `rewrite`; it is tried again later.
        """
        now = time.monotonic()
        if now < self._not_before:
            return False
        self._not_before = now + LOOK_EVERY_S
        if not await self._db.read(is_due, now=self._db.clock()):
            self._due_since = None
            return False
        self._due_since = now if self._due_since is None else self._due_since
        insists = now - self._due_since > LONGEST_DELAY_S
        if insists or await asyncio.to_thread(is_quiet, self._db.path):
            await self.rewrite(insists=insists)
        return False

    async def rewrite(self, *, insists: bool) -> bool:
        """Rewrite the file now; return False if something was saved meanwhile, which can be prevented.

        Saves wait for a second or two per 300 MB, or twice as long if it `insists`. Questions are answered.

        Raises:
            StorageFull: less than twice the size of the database is free.
            StorageFailed: SQLite or the disk failed. The database is unchanged.
        """
        try:
            async with self._db.one_check:
                began = time.monotonic()
                await asyncio.to_thread(require_space, self._db.path)
                for index in await self._db.read(spaces.prepared):
                    await self._pack(index)
                deleted = await self._db.write(_compact_words)
                is_done = await self._replace_pages(insists=insists)
                if is_done:
                    await self._db.write(_remember, deleted=deleted, now=self._db.clock())
        except StorageFull as error:
            self.problem = error.message
            raise
        self.problem = None
        if is_done:
            self._due_since = None
            self._db.tidying.note_deletion()  # the WAL holds the whole file
            log.info("database_rewritten", seconds=round(time.monotonic() - began, 1))
        return is_done

    async def _pack(self, index: SpaceIndex) -> None:
        if not await self._db.read(index.is_sparse):
            return
        chunks = await self._db.read(index.chunk_ids)
        for at in range(0, len(chunks), VECTORS_PER_STEP):
            began = time.monotonic()
            await self._db.write(index.pack, chunks=chunks[at : at + VECTORS_PER_STEP])
            await asyncio.sleep(time.monotonic() - began)

    async def _replace_pages(self, *, insists: bool) -> bool:
        stop = threading.Event()
        copy = _Copy(self._db.path, CopyPace(stop))
        try:
            if not insists:
                await _result(asyncio.to_thread(copy.make), stop)
            put_back = partial(copy.put_back, insists=insists)
            return await _result(self._db.writer.run_alone(put_back), stop)
        finally:
            await finish(asyncio.ensure_future(asyncio.to_thread(copy.discard)))


async def _result(work: Coroutine[Any, Any, T], stop: threading.Event) -> T:
    """Return the result of work in a thread; if the caller is cancelled, stop it and wait for its end."""
    working = asyncio.ensure_future(work)
    try:
        await asyncio.wait([working])
    except asyncio.CancelledError:
        stop.set()
        with contextlib.suppress(AgentctxError):  # the caller gets the cancellation
            await finish(working)
        raise
    return working.result()


class _Copy:
    """A copy of a database without unused space, which replaces its pages. Each method blocks."""

    def __init__(self, path: Path, pace: CopyPace) -> None:
        self._path = path
        self._file = partial_of(path)
        self._pace = pace
        self._source: Connection | None = None
        self._version = 0

    def make(self) -> None:
        """Copy the database as it is now."""
        discard_copy(self._path)
        try:
            self._source = open_connection(self._path, readonly=True)
            self._version = _data_version(self._source)
            copy_without_gaps(self._source, self._file, self._pace)
        except Error as error:
            raise translated(error, "cannot rewrite the database") from error

    def put_back(self, target: Connection, *, insists: bool) -> bool:
        """Replace all pages in one transaction; return False if something was committed since `make`.

        If it `insists`, the copy is made here, in the thread of the only connection that writes.
        """
        if insists:
            self.make()
        if self._source is None or _data_version(self._source) != self._version:
            return False
        with closing(open_connection(self._file, readonly=True)) as copy:
            copy.backup(target, pages=PAGES_PER_STEP, progress=lambda *_: self._pace.step())
        return True

    def discard(self) -> None:
        if self._source is not None:
            self._source.close()
        discard_copy(self._path)


def is_due(conn: Connection, *, now: int) -> bool:
    """Return whether entries were deleted since the last rewrite, or much of the file is unused by now."""
    last = dict(conn.execute(_LAST))
    if 0 <= now - last.get("rewritten", 0) < EVERY_MS:
        return False
    return _deleted(conn) != last.get("deleted", 0) or _has_much_unused(conn)


def _has_much_unused(conn: Connection) -> bool:
    """Return whether a rewrite gives space back, as after a change of the model or of many texts."""
    (pages,) = conn.execute("PRAGMA page_count").fetchone()
    (free,) = conn.execute("PRAGMA freelist_count").fetchone()
    if free >= MIN_FREE_PAGES and free > pages * MAX_FREE:
        return True
    return any(index.is_sparse(conn) for index in spaces.prepared(conn))


def is_quiet(database: Path) -> bool:
    """Return whether nothing was written to the WAL for a while. Blocks."""
    try:
        written = database.with_name(f"{database.name}-wal").stat().st_mtime
    except OSError:
        return True
    return abs(time.time() - written) > QUIET_S


def require_space(database: Path) -> None:
    """Raise `StorageFull` unless there is room for a copy, and for as much in the WAL. Blocks."""
    try:
        needed = 2 * database.stat().st_size + _SPARE_BYTES
        free = shutil.disk_usage(database.parent).free
    except OSError as error:
        raise StorageFailed(f"Cannot rewrite the database: {error.strerror}.") from error
    if free < needed:
        raise StorageFull(
            "Remains of forgotten texts stay in the database file, because rewriting it takes "
            f"{needed // MEBIBYTE} MiB of free disk space.",
            hint="Free disk space, and run `agentctx forget --rewrite`.",
        )


def _compact_words(conn: Connection) -> int:
    """Remove the remains of words; return how many rows were ever deleted."""
    word_index.compact(conn)
    return _deleted(conn)


def _deleted(conn: Connection) -> int:
    (deleted,) = conn.execute(_DELETED).fetchone()
    return int(deleted)


def _remember(conn: Connection, *, deleted: int, now: int) -> None:
    conn.executemany(_REMEMBER, [("rewritten", now), ("deleted", deleted)])


def _data_version(conn: Connection) -> int:
    (version,) = conn.execute("PRAGMA data_version").fetchone()
    return int(version)
