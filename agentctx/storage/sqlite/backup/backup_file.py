"""Backup files: written while the database is in use, and verified before use."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from agentctx.errors import AgentctxError, InvalidInput, StorageFailed
from agentctx.storage.backups import Backup
from agentctx.storage.file import connection_thread, migrate
from agentctx.storage.file.copy import CopyPace, check_pages, copy_pages, discard_copy, file_digest, keep_copy
from agentctx.storage.file.driver import Connection, Error, open_connection, translated
from agentctx.storage.sqlite.connections import SqlitePart
from agentctx.storage.sqlite.search import word_index

_MODE = slice(18, 20)
"""The part of a database's header that shows whether it is in WAL mode."""
_ROLLBACK_MODE = b"\x01\x01"
_GIVE: Final = "Give a file made by `agentctx backup`."
_CLEAN: Final = "Restore another backup, or remove these from a copy of it with the sqlite3 program."
_ENTRIES = "SELECT COALESCE(SUM(live), 0), COUNT(*) FROM entries"


def write_backup(conn: Connection, target: Path, *, database: Path, now: int) -> Backup:
    """Write and verify a backup of a database that no process writes to. Blocks.

    Raises:
        InvalidInput: the target is the database itself, or a file that is not a backup.
        StorageFull, StorageFailed: as `copy.copy_pages` and `keep_copy`; an existing target is unchanged.
    """
    check_target(target, database)
    copy_pages(conn, target, finish=word_index.compact)
    return keep_backup(target, now=now)


def keep_backup(target: Path, *, now: int, pace: CopyPace | None = None) -> Backup:
    """Verify the copy that `copy.copy_pages` wrote for `target`, and move it there. Blocks.

    Raises:
        StorageFull, StorageFailed, StorageClosed: as `copy.keep_copy`; an existing target is unchanged.
    """
    return _described(target, keep_copy(target, pace=pace).digest, now)


def read_backup(path: Path) -> Backup:
    """Verify a backup and describe its content; `made` is when the file was written. Blocks.

    Raises:
        StorageFailed: the file is missing, damaged, or not a database of agentctx.
        SchemaTooNew, SchemaTooOld, SchemaForeign: as `migrate.usable_schema`.
    """
    if not path.is_file():
        raise StorageFailed(f"File {path} does not exist.", hint=_GIVE)
    if not _has_entries(path):
        raise StorageFailed(f"{path} is not an agentctx database.", hint=_GIVE)
    if not migrate.usable_schema(path, hint=_CLEAN).applied:
        raise StorageFailed(f"{path} is not an agentctx database.", hint=_GIVE)
    with ThreadPoolExecutor(1) as beside:  # neither holds the interpreter lock
        digesting = beside.submit(file_digest, path)
        check_pages(path)
    try:
        digest, made = digesting.result(), path.stat().st_mtime_ns // 1_000_000
    except OSError as error:
        raise StorageFailed(f"Cannot read {path}: {error.strerror or error}.") from error
    return _described(path, digest, made)


def check_target(target: Path, database: Path) -> None:
    """Refuse a target that exists and is not a backup.

    Raises:
        InvalidInput: the target is the database, one of its files, not a regular file, or another file.
    """
    if not target.is_absolute():
        raise InvalidInput(
            f"{str(target)!r} is not an absolute path.", hint="Give the full path, starting with /."
        )
    if not _is_there(target):
        return
    # Only compared, not opened before this is known: opening it could drop the locks of the live database.
    if any(_is_same(own, target) for own in _files_of(database)):
        raise InvalidInput(f"{target} is the database itself.", hint="Choose another file.")
    if target.is_symlink() or not target.is_file() or (target.stat().st_size and not _is_ours(target)):
        raise InvalidInput(
            f"{target} already exists and is not a backup.", hint="Choose a new file, or remove that one."
        )


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "a path cannot contain a NUL character"
        raise InvalidInput(f"Cannot write a file there: {reason}", hint="Choose another file.") from error
    return True


def _is_same(own: Path, target: Path) -> bool:
    try:
        return own.samefile(target)
    except OSError:  # one does not exist, or is a dangling link
        return False


def _files_of(database: Path) -> list[Path]:
    return [database, *(database.with_name(database.name + end) for end in ("-wal", "-shm", "-journal"))]


def _is_ours(path: Path) -> bool:
    """Return whether the file is a backup. A database in use by a daemon has a WAL; a backup never does."""
    try:
        if not (is_one_file(path) and _has_entries(path)):
            return False
        return migrate.usable_schema(path).version > 0
    except (AgentctxError, OSError):
        return False


def is_one_file(path: Path) -> bool:
    """Return whether the database is not in WAL mode and has no side files. Raises OSError."""
    with path.open("rb") as file:
        header = file.read(_MODE.stop)
    return header[_MODE] == _ROLLBACK_MODE and not any(other.exists() for other in _files_of(path)[1:])


def _has_entries(path: Path) -> bool:
    with closing(open_connection(path, readonly=True)) as conn:
        return bool(conn.execute("SELECT 1 FROM sqlite_schema WHERE name = 'entries'").fetchone())


def _described(path: Path, digest: str, made: int) -> Backup:
    with closing(open_connection(path, readonly=True)) as conn:
        try:
            live, versions = conn.execute(_ENTRIES).fetchone()
            vectors = _vectors(conn)
        except Error as error:
            raise translated(error, f"cannot read {path}") from error
    return Backup(
        path=str(path),
        made=made,
        bytes=path.stat().st_size,
        schema=migrate.schema_version(path),
        entries=live,
        versions=versions,
        vectors=vectors,
        digest=digest,
    )


def _vectors(conn: Connection) -> int:
    """Return the number of vectors in a database of any schema."""
    tables = {name for (name,) in conn.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    spaces = conn.execute("SELECT id FROM spaces WHERE state <> 'retired'").fetchall()
    return sum(
        int(conn.execute(f"SELECT COUNT(*) FROM vec_{space}_rowids").fetchone()[0])  # noqa: S608 - a number
        for (space,) in spaces
        if f"vec_{space}_rowids" in tables
    )


class SqliteFile(SqlitePart):
    """`DatabaseFile` of the open SQLite file."""

    async def look(self) -> None:
        await self.db.writer.inspect_files()

    async def back_up(self, target: Path) -> Backup:
        async with self.db.one_check:
            await asyncio.to_thread(check_target, target, self.db.path)
            await self._copy(target)
            return await self._keep(target)

    async def _copy(self, target: Path) -> None:
        stop = threading.Event()
        copy = partial(copy_pages, target=target, pace=CopyPace(stop, rests=True), finish=word_index.compact)
        try:
            await self.db.writer.copy(copy, stop)
        except asyncio.CancelledError:  # also if the copy was just finished
            await asyncio.to_thread(discard_copy, target)
            raise

    async def _keep(self, target: Path) -> Backup:
        stop = threading.Event()
        keep = partial(keep_backup, target, now=self.db.clock(), pace=CopyPace(stop, rests=True))
        keeping = asyncio.ensure_future(asyncio.to_thread(keep))
        try:
            await asyncio.wait([keeping])
        except asyncio.CancelledError:
            stop.set()
            with contextlib.suppress(AgentctxError):  # the caller gets the cancellation
                await connection_thread.finish(keeping)
            raise
        return keeping.result()
