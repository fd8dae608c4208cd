"""Migrates a database to the program's schema: numbered SQL files, each applied in one transaction."""

from __future__ import annotations

import functools
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from agentctx.errors import SchemaForeign, SchemaTooNew, StorageCorrupt, StorageFailed
from agentctx.sqlite.copy import copy_pages, keep_copy
from agentctx.sqlite.driver import Connection, Error, complete_statement, open_connection, translated
from agentctx.sqlite.schema import (
    KnownSchema,
    Schema,
    SchemaObject,
    foreign_objects,
    schema_objects,
    stored_schema,
)
from agentctx.wording import listed

Clock: TypeAlias = Callable[[], int]
"""Milliseconds since the epoch."""

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_FOLDERS: Final = (_PACKAGE / "migrations" / "sqlite", _PACKAGE.parent / "migrations" / "sqlite")
"""The folder in an installed package, and in a checkout."""
_LAST_VERSION: Final = 9_999
_NAMED: Final = 5
_LEDGER_TABLE: Final = "schema_migrations"
_FILE_NAME: Final = re.compile(r"(?P<version>\d{4})_(?P<name>[a-z0-9_]+)\.sql")

_LEDGER: Final = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied INTEGER NOT NULL
) STRICT
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One migration. Once released, its SQL never changes."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the SQL, hexadecimal."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def file_name(self) -> str:
        return f"{self.version:04}_{self.name}.sql"


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema of a database compared with the program's. Versions ascend."""

    applied: tuple[int, ...]
    """Versions of the migrations in the database; empty if it does not exist."""
    known: tuple[int, ...]
    """Versions of the program's migrations."""
    changed: tuple[str, ...]
    """Files of applied migrations that differ from what was applied."""
    is_misrecorded: bool = False
    """Whether only the record of the migrations is damaged, while the schema itself is intact."""
    foreign: tuple[str, ...] = ()
    """What no migration made, like `trigger h`."""


def wall_clock_ms() -> int:
    """Return the time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def load_migrations(folder: Path | None = None) -> list[Migration]:
    """Load the migrations of a folder, by default the program's own, in order: versions 1, 2, 3 …

    Raises:
        StorageFailed: no folder, a file name is not `NNNN_name.sql`, a version is missing or duplicate.
    """
    folder = folder or next((known for known in _FOLDERS if known.is_dir()), _FOLDERS[0])
    if not folder.is_dir():
        raise StorageFailed(
            f"The migrations folder {folder} is missing.",
            hint="Install agentctx again; files are missing.",
        )
    migrations = sorted(map(_read, folder.glob("*.sql")), key=lambda migration: migration.version)
    versions = [migration.version for migration in migrations]
    if versions != list(range(1, len(versions) + 1)):
        raise StorageFailed(
            f"Migrations must be numbered 1, 2, 3 … without gaps or duplicates, {folder} has {versions}.",
            hint="Give each migration the next free number.",
        )
    return migrations


def _read(path: Path) -> Migration:
    match = _FILE_NAME.fullmatch(path.name)
    if match is None:
        raise StorageFailed(
            f"Invalid migration name {path.name}.", hint="Use NNNN_name.sql, with a-z, 0-9 and _."
        )
    return Migration(int(match["version"]), match["name"], path.read_text(encoding="utf-8"))


def schema_version(path: str | Path) -> int:
    """Return the version of the newest migration in a database; 0 without one. Writes nothing.

    Raises:
        StorageFailed: the file is not a database or cannot be read.
    """
    return max(_applied(path), default=0)


def check_schema(path: str | Path, migrations: Sequence[Migration] | None = None) -> SchemaState:
    """Compare a database with the migrations, by default the program's own. Writes nothing. Blocks.

    Raises:
        StorageFailed: the file is not a database or cannot be read, or the program's migrations are missing.
    """
    migrations = load_migrations() if migrations is None else migrations
    known = tuple(migration.version for migration in migrations)
    if not Path(path).exists():
        return SchemaState(applied=(), known=known, changed=())
    with closing(open_connection(path, readonly=True)) as connection:
        foreign = _read_foreign(connection, migrations)
        # A foreign ledger may be a view that takes forever.
        applied = {} if any(each.name == _LEDGER_TABLE for each in foreign) else _read_ledger(connection)
        return SchemaState(
            applied=tuple(sorted(applied)),
            known=known,
            changed=tuple(migration.file_name for migration in _changed(applied, migrations)),
            is_misrecorded=not foreign and _infer_applied(connection, applied, migrations) is not None,
            foreign=tuple(map(str, foreign)),
        )


def _applied(path: str | Path) -> dict[int, str]:
    if not Path(path).exists():
        return {}
    with closing(open_connection(path, readonly=True)) as connection:
        return _sound_ledger(connection)


def repair_ledger(
    path: str | Path, migrations: Sequence[Migration] | None = None, *, clock: Clock = wall_clock_ms
) -> bool:
    """Rewrite the record of migrations if it is damaged and the schema matches some migrations. Blocks.

    Returns whether it was rewritten. The record of a newer program, or of another schema, is left unchanged.

    Raises:
        StorageFailed: the file is not a database, or cannot be read or written.
    """
    migrations = load_migrations() if migrations is None else migrations
    if not check_schema(path, migrations).is_misrecorded:
        return False
    now = clock()
    with closing(open_connection(path)) as connection:
        applied = _infer_applied(connection, _read_ledger(connection), migrations)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM schema_migrations")
            for migration in applied or ():
                _record(connection, migration, now)
            connection.execute("COMMIT")
        except Error as error:
            raise translated(error, "the record of migrations cannot be written") from error
    return True


def refuse_foreign(
    path: str | Path, migrations: Sequence[Migration] | None = None, *, hint: str | None = None
) -> None:
    """Refuse a database with anything that no migration made, before anything in it can run. Blocks.

    Raises:
        SchemaForeign: the message names what is foreign.
        SchemaTooNew: it is from a newer program, whose objects are unknown here.
        StorageFailed: the file is not a database or cannot be read.
    """
    state = check_schema(path, migrations)
    if state.foreign:
        refuse_newer(max(state.applied, default=0), load_migrations() if migrations is None else migrations)
        named = listed(state.foreign, most=_NAMED)
        raise SchemaForeign(f"{path} has what agentctx did not make: {named}.", hint=hint)


def find_foreign(connection: Connection, migrations: Sequence[Migration] | None = None) -> list[SchemaObject]:
    """Return what no migration made. Reads nothing but the schema. Raises `Error`."""
    migrations = tuple(load_migrations() if migrations is None else migrations)
    found = foreign_objects(schema_objects(connection), known_schema(migrations, len(migrations)))
    return found and foreign_objects(found, known_schema(migrations, 1))


def _read_foreign(connection: Connection, migrations: Sequence[Migration]) -> list[SchemaObject]:
    try:
        return find_foreign(connection, migrations)
    except Error as error:
        raise translated(error, "cannot read the schema of the database") from error


@functools.cache
def known_schema(migrations: tuple[Migration, ...], since: int) -> KnownSchema:
    """Return the objects that the migrations make, with each definition at the version `since` or later.

    The newest definitions alone, which are all that a current database needs, take half the time.
    """
    known: dict[str, set[tuple[bytes, ...]]] = {}
    with closing(Connection(":memory:", isolation_level=None)) as connection:
        for count in range(since, len(migrations) + 1):
            migrate(connection, migrations[:count])
            for each in schema_objects(connection):
                known.setdefault(each.name, set()).add(each.words)
    return known


def intended_schema(migrations: Sequence[Migration]) -> Schema:
    """Return the schema that the migrations create."""
    with closing(Connection(":memory:", isolation_level=None)) as connection:
        migrate(connection, migrations)
        return stored_schema(connection)


def _infer_applied(
    connection: Connection, recorded: Mapping[int, str], migrations: Sequence[Migration]
) -> Sequence[Migration] | None:
    """Return the migrations that match the schema if their record is damaged; None if it is sound.

    A sound record has the versions 1, 2, 3 … without gaps, even if a newer program wrote it.
    """
    known = {migration.version for migration in migrations}
    is_newer = known < recorded.keys()
    has_gaps = bool(recorded) and set(recorded) != set(range(1, len(recorded) + 1))
    if is_newer or not (has_gaps or _changed(recorded, migrations)):
        return None
    stored = stored_schema(connection)
    for count in range(len(migrations), 0, -1):
        if stored == intended_schema(migrations[:count]):
            return migrations[:count]
    return None


def migrate_database(
    path: str | Path, migrations: Sequence[Migration] | None = None, *, clock: Clock = wall_clock_ms
) -> list[int]:
    """Open or create a database and migrate it to the program's schema; return the versions applied. Blocks.

    A database that already has a schema is first copied to the path of `backup_before_migration`.

    Raises:
        SchemaTooNew: a newer program wrote it; it was opened read-only and is unchanged.
        StorageFull, StorageFailed: as `migrate`, `driver.open_connection` and `copy.keep_copy`.
    """
    migrations = load_migrations() if migrations is None else migrations
    version = schema_version(path)
    refuse_newer(version, migrations)
    with closing(open_connection(path)) as connection:
        _refuse_changed(_read_ledger(connection), migrations)
        if 0 < version < len(migrations):
            _back_up(connection, Path(path), version)
        return migrate(connection, migrations, clock=clock)


def backup_before_migration(path: Path, version: int) -> Path:
    """Return the path of the copy made before leaving a schema version: `agentctx.db.schema-1.bak`."""
    return path.with_name(f"{path.name}.schema-{version}.bak")


def backups_before_migration(path: Path) -> list[Path]:
    """Return all existing copies made before a migration."""
    return sorted(path.parent.glob(f"{path.name}.schema-*.bak"))


def _back_up(connection: Connection, path: Path, version: int) -> None:
    """Copy the unmigrated database; remove earlier copies."""
    target = backup_before_migration(path, version)
    copy_pages(connection, target)
    keep_copy(target)
    for other in backups_before_migration(path):
        if other != target:
            other.unlink(missing_ok=True)


def migrate(
    connection: Connection, migrations: Sequence[Migration], *, clock: Clock = wall_clock_ms
) -> list[int]:
    """Apply the missing migrations in order; return their versions.

    The connection must not be in a transaction. Each migration is applied in one, and a failed one leaves no
    changes; the earlier ones stay applied. A new database gets all in one transaction, which syncs once.

    Raises:
        SchemaTooNew: the database has a version this program does not know.
        StorageFailed: an applied migration was changed since, or one failed.
    """
    applied = _sound_ledger(connection)
    refuse_newer(max(applied, default=0), migrations)
    _refuse_changed(applied, migrations)
    missing = [migration for migration in migrations if migration.version not in applied]
    for together in [[each] for each in missing] if applied else [missing]:
        _apply(connection, together, clock())
    return [migration.version for migration in missing]


def _sound_ledger(connection: Connection) -> dict[int, str]:
    """Read the ledger. Raises `StorageCorrupt` for a version that no migration can have."""
    ledger = _read_ledger(connection)
    if any(not 0 < version <= _LAST_VERSION for version in ledger):
        raise StorageCorrupt(
            "The list of applied migrations is damaged.",
            hint="Stop the daemon and run `agentctx doctor --fix`, or restore a backup.",
        )
    return ledger


def _read_ledger(connection: Connection) -> dict[int, str]:
    """Return the recorded checksums of the applied migrations, by version."""
    try:
        if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'schema_migrations'").fetchall():
            return {}
        return dict(connection.execute("SELECT version, checksum FROM schema_migrations"))
    except Error as error:
        raise translated(error, "cannot read the schema of the database") from error


def refuse_newer(version: int, migrations: Sequence[Migration]) -> None:
    """Raise `SchemaTooNew` if this program does not know the version of the schema."""
    newest = max((migration.version for migration in migrations), default=0)
    if version > newest:
        raise SchemaTooNew(
            f"The database has schema version {version}; this agentctx supports up to {newest}."
        )


def _refuse_changed(applied: Mapping[int, str], migrations: Sequence[Migration]) -> None:
    for migration in _changed(applied, migrations):
        raise StorageFailed(
            f"{migration.file_name} differs from the migration applied to this database.",
            hint="Install a released agentctx again; an applied migration must never change.",
        )


def _changed(applied: Mapping[int, str], migrations: Sequence[Migration]) -> list[Migration]:
    return [
        migration
        for migration in migrations
        if applied.get(migration.version, migration.checksum) != migration.checksum
    ]


def _apply(connection: Connection, migrations: Sequence[Migration], now: int) -> None:
    """Apply the migrations in one transaction."""
    name = ""
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_LEDGER)
        for migration in migrations:
            name = migration.file_name
            for statement in split_statements(migration.sql):
                connection.execute(statement)
            _record(connection, migration, now)
        connection.execute("COMMIT")
    except Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise translated(error, f"{name} failed and was rolled back") from error


def _record(connection: Connection, migration: Migration, now: int) -> None:
    connection.execute(
        "INSERT INTO schema_migrations (version, name, checksum, applied) VALUES (?, ?, ?, ?)",
        (migration.version, migration.name, migration.checksum, now),
    )


def split_statements(sql: str) -> Iterator[str]:
    """Yield the statements of a script, each with its semicolon; triggers and strings are not split."""
    statement = ""
    for piece in re.split(r"(?<=;)", sql):
        statement += piece
        if complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement
