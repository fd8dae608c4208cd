"""The facts about database files that are not open, for the doctor and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

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
