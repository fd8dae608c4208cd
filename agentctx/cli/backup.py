"""`agentctx backup`: make a verified copy of the memory, with the daemon up or down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentctx.cli.app import ConfigFile, DataDir
from agentctx.cli.connection import connect
from agentctx.cli.layout import file_size
from agentctx.cli.options import AsJson
from agentctx.cli.output import show
from agentctx.errors import AlreadyRunning, DaemonUnreachable, NotFound
from agentctx.wire.wording import counted

if TYPE_CHECKING:
    from agentctx.config.schema import Settings
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
