"""`agentctx migrate`: update the schema, or copy the memory to the other storage engine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentctx.cli.options import AsJson, ConfigFile, DataDir, DryRun
from agentctx.cli.output import show
from agentctx.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from agentctx.config.schema import Settings

SERVER = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class MigrateReport:
    """`version` is the current schema version, `known` the newest this program supports (migration numbers).

    `backup` is the copy made before an upgrade.
    """

    database: str
    version: int
    known: int
    applied: list[int]
    pending: list[int]
    backup: str | None = None


def migrate(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    dry_run: DryRun = False,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="URL|FILE",
            help="Copy the memory to the other engine: postgresql://… from SQLite, a file from PostgreSQL.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Update the database to this program's schema. The daemon also does this when it starts.

    With --to, copy everything to the other storage engine and compare every row. A daemon may serve the
    memory meanwhile; then stop it and run the command again, which copies the rest.
    """
    from agentctx.config.load import load_settings
    from agentctx.daemon.build import DaemonPaths
    from agentctx.storage.opening import server_engine

    settings = load_settings(config, {"data_dir": data_dir})
    if to is not None:
        if not (server := settings.storage.url or to).startswith(SERVER):
            raise InvalidInput(
                "--to names the engine that the memory already uses.",
                hint="Use `agentctx backup` and `agentctx restore`.",
            )
        is_whole = server_engine(server).migrate_to(settings, to, dry_run=dry_run, as_json=as_json)
        raise typer.Exit(0 if is_whole else 1)
    if settings.storage.url:
        report = update_server_schema(settings, dry_run=dry_run)
        show(report, [report_line(report)], as_json)
        return
    paths = DaemonPaths.of(settings)
    if not paths.database.is_file():
        raise NotFound(
            f"Database {paths.database} does not exist.",
            hint="Give its folder with --data-dir; a daemon creates a new one when it starts.",
        )
    report = (
        pending_migrations(paths.database) if dry_run else apply_migrations(paths.data_dir, paths.database)
    )
    show(report, [report_line(report)], as_json)


def update_server_schema(settings: Settings, *, dry_run: bool) -> MigrateReport:
    """Apply the missing migrations on a server while daemons use it, or with `dry_run` only list them.

    Raises:
        SchemaTooNew, DriverUnsuitable, ConfigInvalid, StorageFailed: as when the daemon starts.
    """
    from agentctx.storage.opening import server_engine, server_of

    engine = server_engine(settings.storage.url)
    versions = asyncio.run(engine.update_schema(settings, applies=not dry_run))
    pending, newest = list(versions.missing), max(versions.known)
    version = min(pending, default=newest + 1) - 1 if dry_run else newest
    database = server_of(settings) or ""
    if dry_run:
        return MigrateReport(database, version, newest, [], pending)
    return MigrateReport(database, version, newest, pending, [])


def pending_migrations(database: Path) -> MigrateReport:
    """Report which migrations are missing; a daemon may be running.

    Raises:
        SchemaTooNew, SchemaTooOld, SchemaForeign, StorageFailed: as `sqlite.migrate.usable_schema`.
    """
    from agentctx.storage.opening import offline_storage

    schema = offline_storage().usable_schema(database)
    pending = [each for each in schema.known if each > schema.version]
    return MigrateReport(str(database), schema.version, max(schema.known), [], pending)


def apply_migrations(data_dir: Path, database: Path) -> MigrateReport:
    """Apply the missing migrations while holding the lock of a daemon.

    Raises:
        AlreadyRunning: a daemon has the data; its pid is in the message.
        SchemaTooNew, SchemaTooOld, SchemaForeign, StorageFailed: as `sqlite.migrate.migrate_database`.
    """
    from agentctx.daemon.host.lock import acquire_lock, data_lock_path
    from agentctx.storage.opening import offline_storage

    with acquire_lock(data_lock_path(data_dir)):
        done = offline_storage().migrate(database)
    backup = str(done.backup) if done.backup else None
    return MigrateReport(str(database), done.version, done.version, list(done.applied), [], backup)


def report_line(report: MigrateReport) -> str:
    """Return what was done, or would be, and the schema version."""
    now = f"schema version {report.version} of {report.known}"
    if report.pending:
        return f"to apply  {_numbers(report.pending)}  {now}  {report.database}"
    done = f"applied  {_numbers(report.applied)}" if report.applied else "up to date"
    saved = f"  backup {report.backup}" if report.backup else ""
    return f"{done}  {now}  {report.database}{saved}"


def _numbers(versions: list[int]) -> str:
    return ", ".join(map(str, versions))
