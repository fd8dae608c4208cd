"""Replaces the database with a backup while the daemon is stopped; one of them is always in place."""

from __future__ import annotations

import os
from contextlib import closing
from itertools import chain, count
from pathlib import Path

from agentctx.errors import InvalidInput, StorageFailed
from agentctx.storage.backups import RestoredBackup, automatic_backups
from agentctx.storage.file.copy import copy_file, copy_pages, keep_copy, sync_folder
from agentctx.storage.file.driver import Error, open_connection, translated
from agentctx.storage.file.migrate import load_migrations
from agentctx.storage.offline import RESCUED
from agentctx.storage.private_files import give_to_owner_of_folder
from agentctx.storage.sqlite.backup.backup_file import is_one_file, read_backup
from agentctx.storage.sqlite.upkeep.scrub import damaged_entries
from agentctx.times import compact_time

_SIDE_FILES = ("-wal", "-shm", "-journal")
_BEFORE = ".before-restore-"


def restore_database(source: Path, database: Path, *, now: int, dry_run: bool = False) -> RestoredBackup:
    """Replace the database with a verified backup, which is kept. Blocks.

    The caller holds the lock of the folder. The old database is kept beside the new one, complete; so is a
    WAL without its database. A backup of an earlier schema is upgraded at the next start. A daemon's copy of
    a lost database is removed afterwards: while it is there, no daemon starts.

    Raises:
        InvalidInput: the source is the database itself.
        SchemaTooNew, SchemaTooOld, SchemaForeign, StorageFailed: the source is not a sound backup; nothing
            was changed.
        StorageFull, StorageFailed: another program has the database open, or the disk fails; it is unchanged.
    """
    if database.exists() and source.exists() and source.samefile(database):
        raise InvalidInput(f"{source} is the database itself.", hint="Give a backup of it.")
    backup = read_backup(source)
    newest = len(load_migrations())
    damaged = _damaged(source) if backup.schema == newest else None
    aside = _free_name(database, now)
    kept = aside if database.exists() else None
    if not dry_run:
        fresh = database.with_name(f"{database.name}.restoring")
        _copy(source, fresh, backup.digest)
        if kept is not None:
            _forget_second_names(database)
        try:
            give_to_owner_of_folder(fresh)
            if kept is not None:
                _keep(database, kept)
            else:
                _move_side_files(database, aside)
            sync_folder(database.parent)
            fresh.replace(database)
            sync_folder(database.parent)
            if RESCUED in source.name and source.parent.samefile(database.parent):
                source.unlink()
                sync_folder(database.parent)
        except OSError as error:
            raise StorageFailed(
                f"Cannot replace {database}: {error.strerror or error}.",
                hint="The database is unchanged. Check the owner and the mode of its folder.",
            ) from error
    return RestoredBackup(
        backup=backup,
        database=str(database),
        kept=None if kept is None else str(kept),
        newest_schema=newest,
        damaged=damaged,
    )


def _damaged(source: Path) -> int:
    with closing(open_connection(source, readonly=True)) as connection:
        try:
            return damaged_entries(connection)
        except Error as error:
            raise translated(error, f"cannot read {source}") from error


def _free_name(database: Path, now: int) -> Path:
    """Return a name that is free: two restores in one second keep two databases."""
    first = f"{database.name}{_BEFORE}{compact_time(now)}"
    names = chain((first,), (f"{first}-{number}" for number in count(2)))
    return next(path for path in map(database.with_name, names) if not _is_taken(path))


def other_copies(database: Path, folder: Path, *, since: int) -> list[str]:
    """Return the copies of a database, written at `since` (in ms) or later, that no newer backup replaces.

    They are beside it, such as the one that a restore has replaced, or in the backup folder under a name that
    somebody chose. Blocks.
    """
    ours = {each.path for each in automatic_backups(folder)} | {database}
    try:
        found = {*database.parent.glob(f"{database.name}.*"), *folder.glob("*.db")} - ours
        return sorted(
            str(path)
            for path in found
            if not path.name.endswith(_SIDE_FILES) and path.stat().st_mtime_ns // 1_000_000 >= since
        )
    except OSError:
        return []


def _is_taken(path: Path) -> bool:
    return any(path.with_name(path.name + end).exists() for end in ("", *_SIDE_FILES))


def _forget_second_names(database: Path) -> None:
    """Remove second names of the database, left by a restore that was killed before its end."""
    for other in database.parent.glob(f"{database.name}{_BEFORE}*"):
        if other.samefile(database):
            other.unlink()


def _copy(source: Path, target: Path, digest: str) -> None:
    try:
        is_whole = is_one_file(source)
    except OSError as error:
        raise StorageFailed(f"Cannot read {source}: {error.strerror or error}.") from error
    if is_whole:
        copy_file(source, target, digest=digest)
        return
    with closing(open_connection(source, readonly=True)) as connection:
        try:  # one snapshot; otherwise each write of another program would restart the copy
            connection.execute("BEGIN")
            connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        except Error as error:
            raise translated(error, f"cannot read {source}") from error
        copy_pages(connection, target)
    keep_copy(target)


def _keep(database: Path, kept: Path) -> None:
    """Give the database a second name, with everything in this one file."""
    is_whole = _close_wal(database)
    os.link(database, kept)
    if not is_whole:
        _move_side_files(database, kept)


def _move_side_files(database: Path, kept: Path) -> None:
    """Move the old WAL along: it must neither be lost nor be used with the new database."""
    for end in _SIDE_FILES:
        side = database.with_name(database.name + end)
        if side.exists():
            side.replace(kept.with_name(kept.name + end))


def _close_wal(database: Path) -> bool:
    """Move the WAL into the database and leave WAL mode; return False if the file is damaged.

    Raises:
        StorageFailed: another program has the database open.
    """
    try:
        with closing(open_connection(database)) as connection:
            (mode,) = connection.execute("PRAGMA journal_mode=DELETE").fetchone()
    except StorageFailed as error:
        if _is_damage(error.__cause__):
            return False
        raise
    except UnicodeDecodeError:  # SQLite's error about a damaged schema quotes it
        return False
    except Error as error:
        if _is_damage(error):
            return False
        raise translated(error, f"{database} is in use") from error
    if mode != "delete":
        raise StorageFailed(f"{database} is in use.", hint="Stop the program that has it open.")
    return True


def _is_damage(error: BaseException | None) -> bool:
    name: str = getattr(error, "sqlite_errorname", "") or ""
    return isinstance(error, UnicodeDecodeError) or name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT"))
