"""Operations on database files that are not open, for the doctor and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from agentctx.storage.audit import ChainVerdict, Head
from agentctx.storage.backups import Backup, Restored
from agentctx.storage.upkeep import FileRepair

DATABASE_NAME: Final = "agentctx.db"
"""Name of the database file in the data folder."""
MEBIBYTE: Final = 1024 * 1024


class SchemaVersions(Protocol):
    """The schema of a database, compared with the program's. Versions are ascending."""

    @property
    def applied(self) -> tuple[int, ...]:
        """Versions of the migrations in the database; empty if it does not exist."""

    @property
    def known(self) -> tuple[int, ...]:
        """Versions of the program's migrations."""

    @property
    def changed(self) -> tuple[str, ...]:
        """Files of applied migrations that differ from what was applied."""

    @property
    def is_misrecorded(self) -> bool:
        """Whether only the record of the migrations is damaged, while the schema itself is intact."""


class ReserveLevel(Protocol):
    """The space reserved for forgetting when the disk is full, in bytes."""

    @property
    def kept(self) -> int | None:
        """The reserved size; None if there was no room for the reserve yet."""

    @property
    def wanted(self) -> int: ...

    @property
    def is_whole(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationResult:
    """The result of a migration: `version` is the new one, `backup` the copy made before an upgrade."""

    applied: tuple[int, ...]
    version: int
    backup: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizes:
    """Sizes of the files of a database in bytes; 0 for a missing one."""

    database: int
    log: int
    """The WAL, with the commits that are not in the database file yet."""
    reserve: int


class OfflineStorage(Protocol):
    """An engine without an open database. All methods block.

    For writing methods, the caller must hold the lock of the data folder.
    """

    @property
    def version(self) -> str:
        """Version of the engine's library."""

    @property
    def feature_checks(self) -> Mapping[str, Callable[[], str]]:
        """Checks of the engine's requirements on this machine, by the ids of the doctor's checks.

        Each returns a description of its finding, or raises an `AgentctxError`.
        """

    def schema(self, database: Path, /) -> SchemaVersions:
        """Return the schema without writing anything. Raises `StorageFailed`."""

    def migrate(self, database: Path) -> MigrationResult:
        """Migrate a database to the program's schema. Raises `SchemaTooNew`, `StorageFailed`."""

    def rebuild_file(self, database: Path, /, *, now: int) -> FileRepair:
        """Rebuild a database that does not open, from every readable row.

        Raises:
            StorageFull, StorageFailed: the rebuild failed; the file is unchanged.
        """

    def back_up(self, database: Path, target: Path, *, now: int) -> Backup:
        """Write and verify a backup. Raises the errors of `BackupStorage.write`."""

    def restore(self, source: Path, database: Path, *, now: int, dry_run: bool = False) -> Restored:
        """Replace a database with a verified backup, and record the restore in its audit trail.

        The old database is kept beside it.

        Raises:
            InvalidInput: the source is the database itself.
            SchemaTooNew, StorageFailed: the source is not a sound backup; nothing was changed.
            StorageFull, StorageFailed: another program has the database open, or the disk fails; unchanged.
        """

    def verify_audit(self, database: Path, /, noted: Head | None = None) -> ChainVerdict:
        """Verify the audit trail's chain in a database or a backup, opened read-only.

        Raises:
            StorageFailed: the file is missing or damaged, or has no chained trail.
        """

    def reserve(self, folder: Path, wanted: int) -> ReserveLevel:
        """Return the state of the reserve in a data folder; it should have `wanted` bytes."""

    def rescue_copies(self, database: Path) -> Sequence[Path]:
        """Return a daemon's copies of a database that was removed or replaced while open, oldest first."""

    def is_replaced(self, path: Path, /) -> bool:
        """Return whether the file is a database that a restore has renamed."""

    def sizes(self, database: Path) -> FileSizes: ...
