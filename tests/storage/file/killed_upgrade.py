"""Repeat the upgrade of a database of 0.1.0, killed at the first statement, then at a later one, and so on.

    python -m tests.storage.file.killed_upgrade FOLDER EVERY [broken]

EVERY is the step between statements. Each upgrade runs in its own process, which kills itself.
Prints a JSON object: `kills`, `violations`.
With `broken`, migrations run without a transaction and without a backup, which must be noticed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path

from agentctx.errors import StorageFailed
from agentctx.storage.file import migrate
from agentctx.storage.file.driver import Connection, Error, open_connection
from tests.fixtures.releases import Contents, contents, unpack

LATER = (
    migrate.Migration(
        2, "titles", "CREATE TABLE titles (entry INTEGER PRIMARY KEY, title TEXT NOT NULL) STRICT;"
    ),
    migrate.Migration(
        3,
        "more_titles",
        """CREATE TABLE more (entry INTEGER PRIMARY KEY, title TEXT NOT NULL, words INTEGER) STRICT;
        INSERT INTO more (entry, title) SELECT seq, substr(content, 1, 20) FROM entries;
        DROP TABLE titles;
        ALTER TABLE more RENAME TO titles;
        CREATE INDEX titles_title ON titles (title);""",
    ),
)
CORE = migrate.load_migrations()[:1]
MIGRATIONS = [*CORE, *LATER]
"""The program's first migration, and made-up later ones."""


def kill_everywhere(folder: Path, every: int) -> tuple[int, list[str]]:
    """Return the number of kills, and the violations found afterwards."""
    violations: list[str] = []
    for kills, statement in enumerate(count(1, every)):
        place = folder / str(statement)
        place.mkdir()
        database = unpack(place)
        before = contents(database)
        if not _killed_at(database, statement):
            return kills, violations
        violations += [f"statement {statement}: {what}" for what in _violations(database, before)]
    raise AssertionError


def _killed_at(database: Path, statement: int) -> bool:
    child = os.fork()
    if child == 0:
        _count_statements(statement)
        migrate.migrate_database(database, MIGRATIONS)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _count_statements(fatal: int) -> None:
    seen = count(1)

    def count_statement(_: str) -> None:
        if next(seen) == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def open_traced(path: str | Path, *, readonly: bool = False) -> Connection:
        connection = open_connection(path, readonly=readonly)
        connection.set_trace_callback(count_statement)
        return connection

    migrate.open_connection = open_traced  # type: ignore[attr-defined]


def _violations(database: Path, before: Contents) -> Iterator[str]:
    if migrate.check_schema(database, MIGRATIONS).version > 1:
        backup = migrate.backup_before_migration(database, 1)
        if not backup.exists() or contents(backup) != before:
            yield "the schema changed without a usable backup"
    if _as_before(database, before) != before:
        yield "rows differ"
    try:
        migrate.migrate_database(database, MIGRATIONS)
    except (StorageFailed, Error) as error:
        yield f"it could not be resumed: {error}"
    if migrate.check_schema(database, MIGRATIONS).version != len(MIGRATIONS):
        yield "it was not resumed"
    if _as_before(database, before) != before:
        yield "rows differ after the resumed upgrade"
    with closing(open_connection(database, readonly=True)) as connection:
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            yield "integrity"
        if connection.execute("PRAGMA foreign_key_check").fetchall():
            yield "foreign keys"


def _as_before(database: Path, before: Contents) -> Contents:
    return {name: rows for name, rows in contents(database).items() if name in before}


def _break_upgrades() -> None:
    def apply(connection: Connection, migrations: Sequence[migrate.Migration], now: int) -> None:
        connection.execute(migrate._LEDGER)
        for migration in migrations:
            for statement in migrate.split_statements(migration.sql):
                connection.execute(statement)
            row = (migration.version, migration.name, migration.checksum, now)
            connection.execute("INSERT INTO schema_migrations VALUES (?, ?, ?, ?)", row)

    migrate._apply = apply
    migrate._back_up = lambda *_: None  # type: ignore[assignment]


if __name__ == "__main__":
    if sys.argv[3:] == ["broken"]:
        _break_upgrades()
    kills, found = kill_everywhere(Path(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.write(json.dumps({"kills": kills, "violations": found}))
