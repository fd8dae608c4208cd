"""`agentctx restore`: replace the database with a backup, with the daemon stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentctx.cli.app import ConfigFile, DataDir
from agentctx.cli.layout import columns, file_size
from agentctx.cli.options import AsJson
from agentctx.cli.output import print_note, show
from agentctx.errors import AlreadyRunning
from agentctx.wire.wording import counted

if TYPE_CHECKING:
    from agentctx.storage.backups import RestoredBackup


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What was restored, or would be. `kept` is where the replaced database is; null if none."""

    file: str
    made: str
    bytes: int
    schema: int
    upgraded_to: int
    """The schema to which the daemon upgrades it at its next start."""
    entries: int
    versions: int
    vectors: int
    damaged: int | None
    """Entries that do not match their checksums; null if the backup has an earlier schema."""
    database: str
    kept: str | None
    dry_run: bool


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup made by `agentctx backup`.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the backup and show what would be done.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a backup and replace the database with it; the replaced database is kept.

    Stop the daemon first. With --dry-run nothing is changed.
    """
    report = _restored(file.absolute(), config, data_dir, dry_run=dry_run)
    show(report, columns(list(report_rows(report))), as_json)
    if report.damaged:
        print_note(f"{report.damaged:,} of the entries in it are damaged; `agentctx doctor` names them")


def report_rows(report: RestoreReport) -> Iterator[tuple[str, ...]]:
    """Yield what is restored and what is kept, for people."""
    would = "would restore" if report.dry_run else "restored"
    entries = counted(report.entries, "entry", "entries")
    yield would, f"{entries} of {report.made}, {file_size(report.bytes)}, from {report.file}"
    yield "database", report.database
    yield ("would keep" if report.dry_run else "kept"), report.kept or "nothing: there was no database"
    if report.upgraded_to > report.schema:
        yield "schema", f"{report.schema}; the daemon upgrades it to {report.upgraded_to} when it starts"


def _restored(file: Path, config: Path | None, data_dir: Path | None, *, dry_run: bool) -> RestoreReport:
    from agentctx.config.load import load_settings
    from agentctx.daemon.build import DaemonPaths
    from agentctx.daemon.host.lock import acquire_lock, data_lock_path
    from agentctx.storage.opening import offline_storage, require_file
    from agentctx.times import wall_clock

    settings = load_settings(config, {"data_dir": data_dir})
    require_file(settings)
    paths = DaemonPaths.of(settings)
    restore = partial(offline_storage().restore, file, paths.database, now=wall_clock())
    if dry_run:
        return _report(restore(dry_run=True), dry_run=True)
    try:
        with acquire_lock(data_lock_path(paths.data_dir)):
            return _report(restore(), dry_run=False)
    except AlreadyRunning as error:
        raise AlreadyRunning(error.message, hint="Stop it, restore, and start it again.") from None


def _report(restored: RestoredBackup, *, dry_run: bool) -> RestoreReport:
    from agentctx.times import format_time

    backup = restored.backup
    return RestoreReport(
        file=backup.path,
        made=format_time(backup.made),
        bytes=backup.bytes,
        schema=backup.schema,
        upgraded_to=restored.newest_schema,
        entries=backup.entries,
        versions=backup.versions,
        vectors=backup.vectors,
        damaged=restored.damaged,
        database=restored.database,
        kept=restored.kept,
        dry_run=dry_run,
    )
