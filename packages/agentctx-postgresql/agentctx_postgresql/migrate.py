"""Migrate a database to the program's schema: numbered SQL files, each applied once in one transaction.

Daemons that start at the same time take turns by an advisory lock, which is released with the transaction.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentctx.errors import DriverUnsuitable, SchemaTooNew, SchemaTooOld, StorageFailed
from agentctx.wire.wording import counted
from agentctx_postgresql.driver import Connection

OLDEST_SERVER: Final = 15
OLDEST_VECTOR: Final = (0, 8)
LOCK: Final = 4_207_001
"""The advisory lock of migrations."""

_FOLDER: Final = Path(__file__).with_name("migrations")
_LEDGER: Final = """CREATE TABLE IF NOT EXISTS schema_migrations (
    version integer PRIMARY KEY, name text NOT NULL, sha256 text NOT NULL,
    applied timestamptz NOT NULL DEFAULT now())"""
_FORMER: Final = {
    1: "3b1369bfed8b114949f75e854248e5af1c2759ca431d73bbcd36fc23d7bf50f1",
    2: "e2feb3b331852e12c261a38469a38e7254396fa37bc0471dac32206618c48356",
    3: "5a4f30e82f17d23af9d72aa6683706a2506cf52773928af3ff46bf038e5d77ea",
}
"""What agentctx 0.1.0 recorded; its migrations make what `0001_core.sql` makes."""


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """One migration. Once released, its SQL never changes."""

    version: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def load_schema(folder: Path = _FOLDER) -> list[SchemaFile]:
    """Return the program's migrations in order, with versions 1, 2, 3 … Raises StorageFailed."""
    files = [
        SchemaFile(int(path.name[:4]), path.stem[5:], path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))
    ]
    if not files or [file.version for file in files] != list(range(1, len(files) + 1)):
        raise StorageFailed(
            f"The migrations in {folder} are incomplete.", hint="Install agentctx again; files are missing."
        )
    return files


async def check_server(conn: Connection) -> None:
    """Raise DriverUnsuitable if the server is too old, could lose acknowledged saves, or lacks pgvector."""
    version = conn.get_server_version()
    if version.major < OLDEST_SERVER:
        raise DriverUnsuitable(
            f"The server is PostgreSQL {version.major}; agentctx needs {OLDEST_SERVER} or newer.",
            hint="Use a newer server.",
        )
    if await conn.fetchval("SHOW synchronous_commit") == "off":
        raise DriverUnsuitable(
            "The server acknowledges saves that are not on its disk yet: synchronous_commit is off.",
            hint="Run `ALTER ROLE CURRENT_USER SET synchronous_commit = on`, or set it for the server.",
        )
    found = await conn.fetchval("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    if found is None:
        raise DriverUnsuitable(
            "The database lacks the extension pgvector.",
            hint='Have a superuser run `psql -c "CREATE EXTENSION vector"` in this database. Debian and '
            f"Ubuntu have it in the package postgresql-{version.major}-pgvector.",
        )
    if tuple(map(int, re.findall(r"\d+", found)[:2])) < OLDEST_VECTOR:
        raise DriverUnsuitable(
            f"The database has pgvector {found}; agentctx needs 0.8 or newer.",
            hint='Have a superuser run `psql -c "ALTER EXTENSION vector UPDATE"` in this database.',
        )


async def migrate(conn: Connection, files: Sequence[SchemaFile]) -> list[int]:
    """Apply the missing migrations, each in one transaction; return their versions.

    A record of agentctx 0.1.0 is first replaced by the program's own.

    Raises:
        SchemaTooNew: the database has a version that this program does not know; nothing was changed.
        SchemaTooOld: the schema is from before agentctx 0.1.0; nothing was changed.
        StorageFailed: an applied migration has been changed.
    """
    applied = await applied_schema(conn)
    absent = missing(applied, files)
    if applied == _FORMER:
        async with conn.transaction():
            await _take_turn(conn)
            # Another daemon may have replaced it meanwhile.
            if await applied_schema(conn) == _FORMER:
                await conn.execute("DELETE FROM schema_migrations")
                await _record(conn, files[0])
    for file in absent:
        async with conn.transaction():
            await _take_turn(conn)
            await conn.execute(_LEDGER)
            # Another daemon may have applied it meanwhile.
            if not await conn.fetchval("SELECT 1 FROM schema_migrations WHERE version = $1", file.version):
                await conn.execute(file.sql)
                await _record(conn, file)
    return [file.version for file in absent]


async def _take_turn(conn: Connection) -> None:
    await conn.execute("SET LOCAL lock_timeout = '30s'")
    await conn.execute("SELECT pg_advisory_xact_lock($1)", LOCK)


async def _record(conn: Connection, file: SchemaFile) -> None:
    await conn.execute(
        "INSERT INTO schema_migrations (version, name, sha256) VALUES ($1, $2, $3)",
        file.version,
        file.name,
        file.sha256,
    )


async def require_current(conn: Connection, files: Sequence[SchemaFile]) -> None:
    """Raise like `migrate`, and StorageFailed if a migration is missing."""
    if absent := missing(await applied_schema(conn), files):
        raise StorageFailed(
            f"The database lacks {counted(len(absent), 'migration')} of this agentctx.",
            hint="Start the daemon as the owner of the tables, or run `agentctx migrate` as the owner.",
        )


async def applied_schema(conn: Connection) -> dict[int, str]:
    """Return the checksums of the applied migrations by version."""
    if await conn.fetchval("SELECT to_regclass('schema_migrations')") is None:
        return {}
    return {row[0]: row[1] for row in await conn.fetch("SELECT version, sha256 FROM schema_migrations")}


def missing(applied: Mapping[int, str], files: Sequence[SchemaFile]) -> list[SchemaFile]:
    """Return the migrations that a database lacks. Raises like `migrate`."""
    if applied == _FORMER:
        return list(files[1:])
    if applied.get(1) == _FORMER[1]:
        raise SchemaTooOld(
            "The schema of the database is from before agentctx 0.1.0.",
            hint="Open it once with 0.1.0. In a clone of agentctx, with the same settings, run `uvx --with "
            "asyncpg --from git+file://$PWD@v0.1.0 agentctx migrate`.",
        )
    newest = max(applied, default=0)
    if newest > len(files):
        raise SchemaTooNew(
            f"The database has schema version {newest}; this agentctx supports up to {len(files)}."
        )
    for file in files:
        if applied.get(file.version, file.sha256) != file.sha256:
            raise StorageFailed(
                f"{file.version:04}_{file.name}.sql differs from the migration applied to this database.",
                hint="Install a released agentctx again; an applied migration must never change.",
            )
    return [file for file in files if file.version not in applied]
