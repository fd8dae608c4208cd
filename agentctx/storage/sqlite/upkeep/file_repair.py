"""Makes a file with damaged pages again, if only words and vectors are damaged, which are derived.

The damaged file is only read, since SQLite would free and reuse pages by lists that may be damaged too. In a
copy, the damaged indexes are taken out of the schema, the rest is rewritten, and they are built again. Then
the new pages replace the old ones in one transaction, so that a crash leaves one of the two.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Final

from agentctx.errors import StorageCorrupt
from agentctx.storage.file.copy import check_pages
from agentctx.storage.file.driver import (
    Connection,
    Error,
    hardening,
    open_connection,
    open_copy_target,
    translated,
)
from agentctx.storage.sqlite import sql
from agentctx.storage.sqlite.search import word_index
from agentctx.storage.sqlite.upkeep import word_rebuild
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.upkeep import recreate_vectors

ENDING: Final = ".repairing"
_DERIVED: Final = re.compile(r"(chunk_fts|vec_\d+)(?:_\w+)?")
_TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY name"
_PROBLEM: Final = "SELECT * FROM pragma_integrity_check(?)"
_TAKE_OUT: Final = "DELETE FROM sqlite_schema WHERE tbl_name = ?1 OR tbl_name GLOB ?1 || '_[a-z]*'"


def rebuild_derived(path: Path, *, now: int) -> None:
    """Replace the pages of a database that no connection has open. Blocks.

    Raises:
        StorageCorrupt: something else is damaged, which only a backup has; the file is unchanged.
        StorageFull, StorageFailed: no space for a copy, or the disk failed; the file is unchanged.
    """
    fresh = path.with_name(path.name + ENDING)
    discard_partial_repairs(path)
    try:
        with closing(open_connection(path, readonly=True)) as old, closing(open_copy_target(fresh)) as copy:
            damaged = _damaged_indexes(old)
            old.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
        _take_out(fresh, damaged)
        with closing(open_connection(fresh)) as new:
            _build(new, damaged, now)
            new.execute("PRAGMA journal_mode=DELETE")
        check_pages(fresh)
        _overwrite(path, fresh)
    except Error as error:
        raise translated(error, f"cannot repair {path}") from error
    finally:
        discard_partial_repairs(path)


def _overwrite(path: Path, fresh: Path) -> None:
    with closing(open_connection(fresh, readonly=True)) as source, closing(open_connection(path)) as target:
        source.backup(target)
        target.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def discard_partial_repairs(path: Path) -> None:
    """Remove the files of a repair that was killed, because they contain copies of texts."""
    for end in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + ENDING + end).unlink(missing_ok=True)


def _damaged_indexes(conn: Connection) -> list[str]:
    """Return the indexes with damaged pages, of words and vectors. Raises `StorageCorrupt` for others."""
    damaged = set()
    for (table,) in conn.execute(_TABLES).fetchall():
        if _is_sound(conn, table):
            continue
        if not (derived := _DERIVED.fullmatch(table)):
            raise StorageCorrupt(f"The table {table} is damaged, and only a backup has what it contained.")
        damaged.add(derived[1])
    return sorted(damaged)


def _is_sound(conn: Connection, table: str) -> bool:
    try:
        return bool(conn.execute(_PROBLEM, (table,)).fetchall() == [("ok",)])
    except Error as error:  # some damage stops the check
        if getattr(error, "sqlite_errorname", "").startswith("SQLITE_CORRUPT"):
            return False
        raise


def _take_out(path: Path, indexes: list[str]) -> None:
    """Take tables out of the schema without reading a page of them, and rewrite the rest."""
    with closing(open_connection(path)) as conn, hardening.without_defensive(conn):
        conn.execute("PRAGMA writable_schema=1")
        conn.executemany(_TAKE_OUT, [(index,) for index in indexes])
    with closing(open_connection(path)) as conn:
        conn.execute("VACUUM")


def _build(conn: Connection, indexes: list[str], now: int) -> None:
    """Build the indexes in one transaction."""
    conn.execute("PRAGMA foreign_keys=0")
    conn.execute("BEGIN")
    if word_index.TABLE in indexes:
        word_rebuild.begin(conn)
        word_rebuild.finish(conn, now=now)
    for space in spaces.all_spaces(conn):
        if SpaceIndex(space.id).table in indexes:
            sql.follow(conn, recreate_vectors(space.id, now=now), spaces.SPACE_STATEMENTS)
    conn.execute("COMMIT")
