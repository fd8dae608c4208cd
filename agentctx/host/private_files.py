"""The data folder and every file in it belong to the daemon's user alone: enforced at every start."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import structlog

from agentctx.errors import ConfigInvalid

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_OF_OTHERS: Final = 0o077
_ROOT: Final = 0

log = structlog.get_logger("agentctx.daemon")


def make_private(data_dir: Path, *folders: Path) -> None:
    """Take every right of others from the data folder, and from the files in it and in these folders.

    What had to be repaired is logged: until then others may have read it. Links are not followed, and no
    file is opened: that would cost SQLite its locks.

    Raises:
        ConfigInvalid: the data folder is another user's, who could replace everything in it; or a mode
            cannot be changed.
    """
    owner = data_dir.stat().st_uid
    if owner not in {os.geteuid(), _ROOT}:
        raise ConfigInvalid(
            f"The data folder {data_dir} belongs to user {owner}; the daemon runs as {os.geteuid()}.",
            hint="Run the daemon as that user, choose another folder with --data-dir, or chown it.",
        )
    for path, wanted in ((data_dir, FOLDER_MODE), *((file, FILE_MODE) for file in _files(data_dir, folders))):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode & _OF_OTHERS:
            _repair(path, mode, wanted)


def give_to_owner_of_folder(path: Path) -> None:
    """What root writes in the data folder of another user must belong to that user, whose daemon opens it.

    The sandbox of the service forbids chown, so nothing is changed that need not be.
    """
    owner, own = path.parent.stat(), path.lstat()
    if os.geteuid() == _ROOT and (own.st_uid, own.st_gid) != (owner.st_uid, owner.st_gid):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _repair(path: Path, mode: int, wanted: int) -> None:
    try:
        path.chmod(wanted)
    except OSError as error:
        raise ConfigInvalid(
            f"Other users can read {path} (mode {mode:04o}), and chmod fails: {error.strerror}.",
            hint=f"As its owner, run `chmod {wanted:o} {path}`.",
        ) from error
    log.warning("closed_to_others", path=str(path), reason=f"it had mode {mode:04o}", mode=f"{wanted:04o}")


def _files(data_dir: Path, folders: tuple[Path, ...]) -> Iterator[Path]:
    for folder in (data_dir, *folders):
        if folder.is_dir():
            yield from (path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
