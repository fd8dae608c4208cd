"""Repeat the upgrade of a fixture database, killed at the first statement, then at a later one, and so on.

    python -m tests.sqlite.killed_upgrade SCHEMA FOLDER EVERY [broken]

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
from agentctx.sqlite import migrate
from agentctx.sqlite.driver import Connection, Error, open_connection
from tests.fixtures.schemas import Contents, contents, lasting_contents, unpack
from tests.sqlite.row_digest import row_digest


def kill_everywhere(schema: int, folder: Path, every: int) -> tuple[int, list[str]]:
    """Return the number of kills, and the violations found afterwards."""
    violations: list[str] = []
    for kills, statement in enumerate(count(1, every)):
        place = folder / str(statement)
        place.mkdir()
        database = unpack(schema, place)
        digest = row_digest(database)
        before = lasting_contents(database)
        if not _killed_at(database, statement):
            return kills, violations
        violations += [
            f"statement {statement}: {what}" for what in _violations(database, schema, before, digest)
        ]
    raise AssertionError


def _killed_at(database: Path, statement: int) -> bool:
    child = os.fork()
    if child == 0:
        _count_statements(statement)
        migrate.migrate_database(database)
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


def _violations(database: Path, schema: int, before: Contents, digest: str) -> Iterator[str]:
    version = migrate.schema_version(database)
    if version > schema:
        backup = migrate.backup_before_migration(database, schema)
        if not backup.exists() or row_digest(backup) != digest:
            yield "the schema changed without a usable backup"
    if contents(database, before) != before:
        yield "rows differ"
    try:
        migrate.migrate_database(database)
    except (StorageFailed, Error) as error:
        yield f"it could not be resumed: {error}"
    if migrate.schema_version(database) != len(migrate.load_migrations()):
        yield "it was not resumed"
    if contents(database, before) != before:
        yield "rows differ after the resumed upgrade"
    with closing(open_connection(database, readonly=True)) as connection:
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            yield "integrity"
        if connection.execute("PRAGMA foreign_key_check").fetchall():
            yield "foreign keys"


def _break_upgrades() -> None:
    def apply(connection: Connection, migrations: Sequence[migrate.Migration], now: int) -> None:
        connection.execute(migrate._LEDGER)
        for migration in migrations:
            for statement in migrate.split_statements(migration.sql):
                connection.execute(statement)
            row = (migration.version, migration.name, migration.checksum, now)
            connection.execute("INSERT INTO schema_migrations VALUES (?, ?, ?, ?)", row)

    migrate._apply = apply
    migrate._back_up = lambda *_: None


if __name__ == "__main__":
    if sys.argv[4:] == ["broken"]:
        _break_upgrades()
    kills, found = kill_everywhere(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(json.dumps({"kills": kills, "violations": found}))
