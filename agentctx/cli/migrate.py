"""`agentctx migrate`: to this program's schema, or to the other storage engine, with the daemon stopped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentctx.cli.options import AsJson, ConfigFile, DataDir
from agentctx.cli.output import put, put_json
from agentctx.errors import NotFound, SchemaTooNew

if TYPE_CHECKING:
    from agentctx.config.schema import Settings


@dataclass(frozen=True, slots=True)
class MigrateReport:
    """`version` is the schema's now, `known` the newest this program knows: numbers of migrations.

    `backup` is the copy that was made before an upgrade.
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="URL|FILE",
            help="Copy the memory to the other engine: postgresql://… from SQLite, a file from PostgreSQL.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Bring the database to this program's schema. The daemon does it too, when it starts.

    With --to, copy all of it to the other storage engine and compare every row; with every daemon stopped.
    """
    from agentctx.config.load import load_settings
    from agentctx.daemon.build import DaemonPaths
    from agentctx.storage.opening import require_file

    settings = load_settings(config, {"data_dir": data_dir})
    if to is not None:
        _copy(settings, to, dry_run=dry_run, as_json=as_json)
        return
    require_file(settings)
    places = DaemonPaths.of(settings)
    if not places.database.is_file():
        raise NotFound(
            f"Database {places.database} does not exist.",
            hint="Give its folder with --data-dir; `agentctx serve` creates a new one.",
        )
    report = look(places.database) if dry_run else apply(places.data_dir, places.database)
    if as_json:
        put_json(report)
    else:
        put(report_line(report))


def _copy(settings: Settings, to: str, *, dry_run: bool, as_json: bool) -> None:
    from agentctx.cli.migrate_engine import copy_to, report_lines

    report = copy_to(settings, to, dry_run=dry_run)
    if as_json:
        put_json(report)
    else:
        for line in report_lines(report):
            put(line)
    if not report.is_whole:
        raise typer.Exit(1)


def look(database: Path) -> MigrateReport:
    """Which migrations are missing; a running daemon does not matter.

    Raises:
        SchemaTooNew: a newer agentctx wrote the database.
        StorageFailed: it cannot be read.
    """
    from agentctx.storage.opening import offline_storage

    schema = offline_storage().schema(database)
    version, newest = max(schema.applied, default=0), max(schema.known, default=0)
    if version > newest:
        raise SchemaTooNew(
            f"The database has schema version {version}; this agentctx supports up to {newest}."
        )
    pending = [each for each in schema.known if each > version]
    return MigrateReport(str(database), version, newest, [], pending)


def apply(data_dir: Path, database: Path) -> MigrateReport:
    """Apply what is missing, under the lock that a daemon holds.

    Raises:
        AlreadyRunning: a daemon has the data; its pid is in the message.
        SchemaTooNew, StorageFailed: as `OfflineStorage.migrate`.
    """
    from agentctx.host.lock import acquire_lock, data_lock_path
    from agentctx.storage.opening import offline_storage

    with acquire_lock(data_lock_path(data_dir)):
        done = offline_storage().migrate(database)
    backup = str(done.backup) if done.backup else None
    return MigrateReport(str(database), done.version, done.version, list(done.applied), [], backup)


def report_line(report: MigrateReport) -> str:
    """What was done, or would be, and the version of the schema."""
    now = f"schema version {report.version} of {report.known}"
    if report.pending:
        return f"to apply  {_numbers(report.pending)}  {now}  {report.database}"
    done = f"applied  {_numbers(report.applied)}" if report.applied else "up to date"
    saved = f"  backup {report.backup}" if report.backup else ""
    return f"{done}  {now}  {report.database}{saved}"


def _numbers(versions: list[int]) -> str:
    return ", ".join(map(str, versions))
