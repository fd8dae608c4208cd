"""`agentctx backup` makes a verified copy of the memory; `agentctx restore` puts it in its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentctx.cli.connection import connect
from agentctx.cli.layout import columns, file_size
from agentctx.cli.options import AsJson, ConfigFile, DataDir
from agentctx.cli.output import print_note, show
from agentctx.errors import AlreadyRunning, DaemonUnreachable, NotFound
from agentctx.wire.wording import counted

if TYPE_CHECKING:
    from agentctx.config.schema import Settings
    from agentctx.storage.backups import RestoredBackup
    from agentctx.wire import BackupReply


def backup(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="File to write. Default: a new file in the backup folder."),
    ] = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Write a backup and verify every byte of it while saving continues.

    The daemon writes the backup. If none is running, this command does, from the data folder of the config.
    """
    target = None if file is None else file.absolute()
    reply = _offline(target, config, data_dir) if data_dir else _by_daemon(ctx, target, config)
    older = f", {reply.versions - reply.entries:,} older versions" if reply.versions > reply.entries else ""
    removed = f"  removed {len(reply.removed)} older" if reply.removed else ""
    entries = counted(reply.entries, "entry", "entries")
    line = f"backed up  {entries}{older}  {file_size(reply.bytes)}  {reply.file}{removed}"
    show(reply, [line], as_json)


def _by_daemon(ctx: typer.Context, target: Path | None, config: Path | None) -> BackupReply:
    try:
        with connect(ctx) as client:
            return client.backup(None if target is None else str(target))
    except DaemonUnreachable as unreachable:
        try:
            return _offline(target, config, None)
        except AlreadyRunning:
            # A daemon holds the data but does not answer on this socket: report that instead.
            raise unreachable from None


def _offline(target: Path | None, config: Path | None, data_dir: Path | None) -> BackupReply:
    from agentctx.config.load import load_settings
    from agentctx.daemon.build import DaemonPaths
    from agentctx.daemon.host.lock import acquire_lock, data_lock_path
    from agentctx.storage.opening import require_file

    settings = load_settings(config, {"data_dir": data_dir})
    require_file(settings)
    paths = DaemonPaths.of(settings)
    if not paths.database.is_file():
        raise NotFound(
            f"Database {paths.database} does not exist.",
            hint="Give its folder with --data-dir, or its daemon's socket with --socket.",
        )
    with acquire_lock(data_lock_path(paths.data_dir)):
        return _written(settings, paths.database, target)


def _written(settings: Settings, database: Path, target: Path | None) -> BackupReply:
    from agentctx.service.backup import BackupResult, backup_reply, folder_of, keep_newest, make_folder
    from agentctx.storage.backups import scheduled_name
    from agentctx.storage.opening import offline_storage
    from agentctx.times import wall_clock

    folder, now = folder_of(settings.backup, database.parent), wall_clock()
    if target is not None:
        return backup_reply(BackupResult(offline_storage().back_up(database, target, now=now)))
    make_folder(folder)
    made = offline_storage().back_up(database, folder / scheduled_name(now), now=now)
    return backup_reply(keep_newest(made, settings.backup.keep))


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
    replace = partial(offline_storage().restore, file, paths.database, now=wall_clock())
    if dry_run:
        return _report(replace(dry_run=True), dry_run=True)
    try:
        with acquire_lock(data_lock_path(paths.data_dir)):
            return _report(replace(), dry_run=False)
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
