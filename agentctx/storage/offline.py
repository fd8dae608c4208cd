"""What an engine does with the files of a database that it has not opened, for doctor and command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from agentctx.storage.audit import ChainVerdict, Head
from agentctx.storage.backups import Backup, Restored
from agentctx.storage.upkeep import FileRepair

DATABASE_NAME: Final = "agentctx.db"
"""In the data folder."""
MEBIBYTE: Final = 1024 * 1024


class SchemaVersions(Protocol):
    """The schema of a database beside the program's. Versions ascend."""

    @property
    def applied(self) -> tuple[int, ...]:
        """Versions of the migrations in the database; none if it does not exist."""
        ...

    @property
    def known(self) -> tuple[int, ...]:
        """Versions of the program's."""
        ...

    @property
    def changed(self) -> tuple[str, ...]:
        """Files of applied migrations that are not the ones that were applied."""
        ...

    @property
    def is_misrecorded(self) -> bool:
        """Whether only the record of the migrations is damaged: the schema itself is one that they make."""
        ...


class ReserveLevel(Protocol):
    """How much space is kept for forgetting when the disk is full, in bytes."""

    @property
    def kept(self) -> int | None:
        """None when there was no room for it yet."""
        ...

    @property
    def wanted(self) -> int: ...

    @property
    def is_whole(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """`version` is the schema's now; `backup` the copy that was made before an upgrade."""

    applied: tuple[int, ...]
    version: int
    backup: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizes:
    """Bytes of the files of a database; 0 for one that is missing."""

    database: int
    log: int
    """What is committed and not yet in the database file."""
    reserve: int


class OfflineStorage(Protocol):
    """An engine, without an open database. All methods block.

    The caller of those that write holds the lock of the data folder.
    """

    @property
    def version(self) -> str:
        """Of the engine's library."""
        ...

    @property
    def trials(self) -> Mapping[str, Callable[[], str]]:
        """What the engine needs of this machine, by the ids of the doctor's checks.

        Each says what it has found, or raises an `AgentctxError`.
        """
        ...

    def schema(self, database: Path, /) -> SchemaVersions:
        """Writes nothing. Raises `StorageFailed`."""
        ...

    def migrate(self, database: Path) -> Migrated:
        """Bring a database to the program's schema. Raises `SchemaTooNew`, `StorageFailed`."""
        ...

    def remake(self, database: Path, /, *, now: int) -> FileRepair:
        """Make a database that does not open again, from every row that can be read.

        Raises:
            StorageFull, StorageFailed: the file is what it was.
        """
        ...

    def back_up(self, database: Path, target: Path, *, now: int) -> Backup:
        """Write and verify a backup. Raises as `BackupStorage.write`."""
        ...

    def restore(self, source: Path, database: Path, *, now: int, dry_run: bool = False) -> Restored:
        """Replace a database by a verified backup, and record that in its audit trail.

        The database that was there is kept beside it.

        Raises:
            InvalidInput: the source is the database itself.
            SchemaTooNew, StorageFailed: the source is not a sound backup; nothing was changed.
            StorageFull, StorageFailed: another program has the database open, or the disk fails; it stays.
        """
        ...

    def verify_audit(self, database: Path, /, noted: Head | None = None) -> ChainVerdict:
        """Follow the chain of the audit trail in a database or a backup, which is only read.

        Raises:
            StorageFailed: it is missing, damaged, or has no chained trail.
        """
        ...

    def reserve(self, folder: Path, wanted: int) -> ReserveLevel:
        """What is kept in a data folder, where `wanted` bytes should be."""
        ...

    def rescued(self, database: Path) -> Sequence[Path]:
        """Copies that a daemon wrote of a database that was removed or replaced under it, oldest first."""
        ...

    def is_replaced(self, path: Path, /) -> bool:
        """Whether it is a database that a restore has renamed."""
        ...

    def sizes(self, database: Path) -> FileSizes: ...
