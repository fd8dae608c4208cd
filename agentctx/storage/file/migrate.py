"""Migrates a database to the program's schema: numbered SQL files, each applied in one transaction."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentctx.errors import SchemaForeign, SchemaTooNew, SchemaTooOld, StorageCorrupt, StorageFailed
from agentctx.storage.file.copy import copy_pages, keep_copy
from agentctx.storage.file.driver import Connection, Error, complete_statement, open_connection, translated
from agentctx.storage.file.schema import Schema, SchemaObject, foreign_objects, lasting_schema, schema_objects
from agentctx.times import Clock, wall_clock
from agentctx.wire.wording import listed

_PACKAGE: Final = Path(__file__).resolve().parents[2]
_FOLDERS: Final = (_PACKAGE / "migrations" / "sqlite", _PACKAGE.parent / "migrations" / "sqlite")
"""The folder in an installed package, and in a checkout."""
_LAST_VERSION: Final = 9_999
_NAMED: Final = 5
_LEDGER_TABLE: Final = "schema_migrations"
_FORMER_FIRST: Final = "c0809266f623b34b29e22226f1dc4954953166195be88a2b8f3c409f0ccfdfc0"
_FORMER_NEWEST: Final = 20
"""agentctx 0.1.0 had 20 migrations, the first with this checksum; they make what `0001_core.sql` makes."""
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
    """Versions of the migrations in the database; empty if it does not exist, or is older than 0.1.0."""
    known: tuple[int, ...]
    """Versions of the program's migrations."""
    changed: tuple[str, ...] = ()
    """Files of applied migrations that differ from what was applied."""
    is_misrecorded: bool = False
    """Whether only the record of the migrations is damaged, while the schema itself is intact."""
    is_former: bool = False
    """Whether agentctx 0.1.0, or one before it, recorded the migrations."""
    foreign: tuple[str, ...] = ()
    """What no migration made, like `trigger h`."""

    @property
    def version(self) -> int:
        """The newest migration in the database; 0 without one."""
        return max(self.applied, default=0)

    @property
    def is_too_old(self) -> bool:
        """Whether the schema is from before agentctx 0.1.0."""
        return self.is_former and not self.applied


@dataclass(frozen=True, slots=True)
class MigrationResult:
    """The versions that were applied, and the state before; `backup` is the copy made before an upgrade."""

    applied: tuple[int, ...]
    before: SchemaState
    backup: Path | None

    @property
    def version(self) -> int:
        return max(self.applied, default=self.before.version)


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
    return check_schema(path).version


def check_schema(path: str | Path, migrations: Sequence[Migration] | None = None) -> SchemaState:
    """Compare a database with the migrations, by default the program's own. Writes nothing. Blocks.

    Raises:
        StorageFailed: the file is not a database or cannot be read, or the program's migrations are missing.
    """
    migrations = load_migrations() if migrations is None else migrations
    known = tuple(migration.version for migration in migrations)
    if not Path(path).exists():
        return SchemaState(applied=(), known=known)
    with closing(open_connection(path, readonly=True)) as connection:
        try:
            objects = schema_objects(connection)
        except Error as error:
            raise translated(error, "cannot read the schema of the database") from error
        foreign = _foreign(objects, migrations)
        # A foreign ledger may be a view that takes forever.
        recorded = {} if any(each.name == _LEDGER_TABLE for each in foreign) else _read_ledger(connection)
    applied, is_misrecorded, is_former = tuple(sorted(recorded)), False, False
    if not _is_sound(recorded, migrations):
        is_former = recorded.get(1) == _FORMER_FIRST
        made = () if foreign else _made_by(objects, migrations)
        if is_former and max(recorded) == _FORMER_NEWEST:
            applied = (1,)
        elif made:
            applied, is_misrecorded, is_former = made, True, False
        elif is_former:
            applied = ()
    return SchemaState(
        applied=applied,
        known=known,
        changed=() if is_former else tuple(each.file_name for each in _changed(recorded, migrations)),
        is_misrecorded=is_misrecorded,
        is_former=is_former,
        foreign=tuple(map(str, foreign)),
    )


def usable_schema(
    path: str | Path, migrations: Sequence[Migration] | None = None, *, hint: str | None = None
) -> SchemaState:
    """Return `check_schema` of a database that this program may open. Blocks.

    Nothing in the database can run before, and nothing is written.

    Raises:
        SchemaTooNew: it is from a newer program, whose objects are unknown here.
        SchemaTooOld: it is from before agentctx 0.1.0.
        SchemaForeign: it has something that no migration made. The message names it; `hint` is the error's.
        StorageCorrupt: its record of migrations is damaged, and its schema is none that the program knows.
        StorageFailed: the file is not a database or cannot be read.
    """
    state = check_schema(path, migrations)
    if not 0 <= state.version <= _LAST_VERSION or min(state.applied, default=1) < 1:
        raise StorageCorrupt(
            "The list of applied migrations is damaged.",
            hint="Restore a backup; `agentctx doctor` names the newest.",
        )
    newest = max(state.known, default=0)
    if state.version > newest:
        raise SchemaTooNew(
            f"The database has schema version {state.version}; this agentctx supports up to {newest}."
        )
    if state.is_too_old:
        raise SchemaTooOld(f"The schema of {path} is from before agentctx 0.1.0.")
    if state.foreign:
        named = listed(state.foreign, most=_NAMED)
        raise SchemaForeign(f"{path} has what agentctx did not make: {named}.", hint=hint)
    return state


def find_foreign(connection: Connection) -> list[SchemaObject]:
    """Return what no migration made. Reads nothing but the schema. Raises `Error`."""
    return _foreign(schema_objects(connection), load_migrations())


def _foreign(objects: Sequence[SchemaObject], migrations: Sequence[Migration]) -> list[SchemaObject]:
    known: dict[str, set[tuple[bytes, ...]]] = {}
    for made in _made_schemas(tuple(migrations)):
        for each in made:
            known.setdefault(each.name, set()).add(each.words)
    return foreign_objects(objects, known)


def intended_schema(migrations: Sequence[Migration]) -> Schema:
    """Return the schema that the migrations create."""
    return lasting_schema(_made_schemas(tuple(migrations))[-1])


@functools.cache
def _made_schemas(migrations: tuple[Migration, ...]) -> Sequence[Sequence[SchemaObject]]:
    """Return the objects of a new database after each migration."""
    made = []
    with closing(Connection(":memory:", isolation_level=None)) as connection:
        for count in range(1, len(migrations) + 1):
            migrate(connection, migrations[:count])
            made.append(schema_objects(connection))
    return made


def _made_by(objects: Sequence[SchemaObject], migrations: Sequence[Migration]) -> tuple[int, ...]:
    """Return the versions of the migrations that make exactly this schema; empty if it is none of theirs."""
    stored = lasting_schema(objects)
    made = _made_schemas(tuple(migrations))
    counts = (count for count in range(len(made), 0, -1) if lasting_schema(made[count - 1]) == stored)
    return tuple(range(1, next(counts, 0) + 1))


def _is_sound(recorded: Mapping[int, str], migrations: Sequence[Migration]) -> bool:
    """Return whether a program can have recorded it: versions 1, 2, 3 …, or this program's and more."""
    known = {migration.version for migration in migrations}
    is_possible = all(0 < version <= _LAST_VERSION for version in recorded)
    is_gapless = set(recorded) == set(range(1, len(recorded) + 1))
    return is_possible and (is_gapless or known < recorded.keys()) and not _changed(recorded, migrations)


def migrate_database(
    path: str | Path, migrations: Sequence[Migration] | None = None, *, clock: Clock = wall_clock
) -> MigrationResult:
    """Open or create a database and migrate it to the program's schema. Blocks.

    A record of agentctx 0.1.0, or a damaged one of an intact schema, is first replaced by the program's own.
    Before a migration, the database is copied to the path of `backup_before_migration`.

    Raises:
        SchemaTooNew, SchemaTooOld, SchemaForeign, StorageCorrupt: as `usable_schema`; it is unchanged.
        StorageFull, StorageFailed: an applied migration was changed since, one failed, or as
            `driver.open_connection` and `copy.keep_copy`.
    """
    migrations = load_migrations() if migrations is None else migrations
    state = usable_schema(path, migrations)
    if state.changed and not state.is_misrecorded:
        raise StorageFailed(
            f"{state.changed[0]} differs from the migration applied to this database.",
            hint="Install a released agentctx again; an applied migration must never change.",
        )
    backup = None
    with closing(open_connection(path)) as connection:
        if state.is_misrecorded or state.is_former:
            _replace_record(connection, migrations[: len(state.applied)], clock())
        if 0 < state.version < len(migrations):
            backup = _back_up(connection, Path(path), state.version)
        return MigrationResult(migrate(connection, migrations, clock=clock), state, backup)


def backup_before_migration(path: Path, version: int) -> Path:
    """Return the path of the copy made before leaving a schema version: `agentctx.db.schema-1.bak`."""
    return path.with_name(f"{path.name}.schema-{version}.bak")


def backups_before_migration(path: Path) -> list[Path]:
    """Return all existing copies made before a migration."""
    return sorted(path.parent.glob(f"{path.name}.schema-*.bak"))


def _back_up(connection: Connection, path: Path, version: int) -> Path:
    """Copy the unmigrated database; remove earlier copies."""
    target = backup_before_migration(path, version)
    copy_pages(connection, target)
    keep_copy(target)
    for other in backups_before_migration(path):
        if other != target:
            other.unlink(missing_ok=True)
    return target


def migrate(
    connection: Connection, migrations: Sequence[Migration], *, clock: Clock = wall_clock
) -> tuple[int, ...]:
    """Apply the missing migrations in order; return their versions.

    The connection must not be in a transaction. Each migration is applied in one, and a failed one leaves no
    changes; the earlier ones stay applied. A new database gets all in one transaction, which syncs once.

    Raises:
        StorageFailed: one failed.
    """
    applied = _read_ledger(connection)
    missing = [migration for migration in migrations if migration.version not in applied]
    for together in [[each] for each in missing] if applied else [missing]:
        _apply(connection, together, clock())
    return tuple(migration.version for migration in missing)


def _read_ledger(connection: Connection) -> dict[int, str]:
    """Return the recorded checksums of the applied migrations, by version."""
    try:
        if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'schema_migrations'").fetchall():
            return {}
        return dict(connection.execute("SELECT version, checksum FROM schema_migrations"))
    except Error as error:
        raise translated(error, "cannot read the schema of the database") from error


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


def _replace_record(connection: Connection, migrations: Sequence[Migration], now: int) -> None:
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM schema_migrations")
        for migration in migrations:
            _record(connection, migration, now)
        connection.execute("COMMIT")
    except Error as error:
        raise translated(error, "the record of migrations cannot be written") from error


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
