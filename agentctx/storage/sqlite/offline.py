"""Operations on database files that are not open, for the doctor and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

from agentctx.errors import DriverUnsuitable, StorageFailed
from agentctx.storage.backups import Backup, RestoredBackup
from agentctx.storage.file import migrate
from agentctx.storage.file.driver import (
    FIXED_SINCE,
    Connection,
    Error,
    driver_name,
    is_fixed,
    open_connection,
    sqlite_version,
)
from agentctx.storage.ids import first_id
from agentctx.storage.sqlite.audit.chain import record_restore, verify_file
from agentctx.storage.sqlite.backup.backup_file import write_backup
from agentctx.storage.sqlite.backup.restore import other_copies, restore_database

T = TypeVar("T")

_INSTALL: Final = "Install agentctx again into a fresh environment; pysqlite3 includes a suitable SQLite."


def fit_version(version: str, driver: str) -> str:
    """Describe a suitable version like `3.53.4`. Raises `DriverUnsuitable` if it can corrupt a database."""
    if is_fixed(_parsed(version)):
        return f"SQLite {version}, by {driver}"
    since = ".".join(map(str, FIXED_SINCE))
    raise DriverUnsuitable(
        f"SQLite {version}, by {driver}, can corrupt WAL databases.",
        hint=f"{_INSTALL} Or use a Python with SQLite {since} or newer.",
    )


def _check_vec() -> str:
    return f"sqlite-vec {_tried(lambda db: db.execute('SELECT vec_version()').fetchone()[0])}"


def _check_fts5() -> str:
    _tried(lambda db: db.execute("CREATE VIRTUAL TABLE a USING fts5(text, tokenize = 'porter unicode61')"))
    return "SQLite has FTS5, the index of words"


def _tried(statement: Callable[[Connection], T]) -> T:
    """Run a function on a new database that is opened like the real one."""
    with (
        TemporaryDirectory(prefix="agentctx-doctor-") as folder,
        closing(open_connection(Path(folder, "a.db"))) as db,
    ):
        return statement(db)


def _parsed(version: str) -> tuple[int, int, int]:
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    return major, minor, patch


FEATURE_CHECKS: Final[Mapping[str, Callable[[], str]]] = {
    "sqlite.version": lambda: fit_version(sqlite_version(), driver_name()),
    "sqlite.vec": _check_vec,
    "sqlite.fts5": _check_fts5,
}


class OfflineStorage:
    """SQLite without an open database. All methods block.

    For writing methods, the caller must hold the lock of the data folder.
    """

    schema = staticmethod(migrate.check_schema)
    usable_schema = staticmethod(migrate.usable_schema)
    migrate = staticmethod(migrate.migrate_database)
    verify_audit = staticmethod(verify_file)
    other_copies = staticmethod(other_copies)
    feature_checks = FEATURE_CHECKS
    """Checks of the requirements on this machine, by the ids of the doctor's checks.

    Each returns a description of its finding, or raises an `AgentctxError`.
    """

    @property
    def version(self) -> str:
        """Version of SQLite."""
        return sqlite_version()

    def back_up(self, database: Path, target: Path, *, now: int) -> Backup:
        """Write and verify a backup. Raises the errors of `DatabaseFile.back_up`."""
        with closing(open_connection(database, readonly=True)) as connection:
            return write_backup(connection, target, database=database, now=now)

    def restore(self, source: Path, database: Path, *, now: int, dry_run: bool = False) -> RestoredBackup:
        """Replace a database with a verified backup (`restore_database`), recorded in its audit trail."""
        restored = restore_database(source, database, now=now, dry_run=dry_run)
        if not dry_run:
            record_restore(database, restored.backup, now=now)
        return restored

    def saved_since(self, database: Path, since: int) -> int | None:
        """Return how many entries were created at `since` (in ms) or later; None if that cannot be read."""
        sql = "SELECT COUNT(*) FROM entries INDEXED BY entries_live_id WHERE live = 1 AND id >= ?"
        try:
            with closing(open_connection(database, readonly=True)) as connection:
                return int(connection.execute(sql, (first_id(since),)).fetchone()[0])
        except (Error, StorageFailed):
            return None
