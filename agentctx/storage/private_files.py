"""Keeps the data folder and its files private to the daemon's user; enforced at every start."""

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
_OTHERS_ACCESS: Final = 0o077
_ROOT: Final = 0
_OUR_PREFIX: Final = "agentctx"
_OF_EXT4: Final = "lost+found"
"""In the root of a new volume, which may become the data folder."""

log = structlog.get_logger("agentctx.daemon")


def make_private(data_dir: Path, *folders: Path) -> None:
    """Revoke other users' access to the data folder and to the files in it and in `folders`.

    Each repair is logged, since others may have read the file before. Links to files and folders are not
    followed, and files are not opened: closing one would release SQLite's locks on it.

    Raises:
        ConfigInvalid: the data folder belongs to another user, who could replace everything in it; or a
            mode cannot be changed.
    """
    owner = data_dir.stat().st_uid
    if owner not in {os.geteuid(), _ROOT}:
        raise ConfigInvalid(
            f"The data folder {data_dir} belongs to user {owner}; the daemon runs as {os.geteuid()}.",
            hint="Run the daemon as that user, choose another folder with --data-dir, or chown it.",
        )
    for path, wanted in ((data_dir, FOLDER_MODE), *((file, FILE_MODE) for file in _files(data_dir, folders))):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode & _OTHERS_ACCESS:
            _repair(path, mode, wanted)


def refuse_folder_of_others(data_dir: Path) -> None:
    """Check a data folder before anything is written to it: `make_private` would close it and its files.

    Raises:
        ConfigInvalid: other users may enter the folder, and all its files are other programs', as in a home
            or in /etc.
    """
    if (
        not data_dir.is_dir()
        or not data_dir.stat().st_mode & _OTHERS_ACCESS
        or not os.access(data_dir, os.R_OK)
    ):
        return
    names = {path.name for path in data_dir.iterdir()} - {_OF_EXT4}
    if names and not any(name.startswith(_OUR_PREFIX) for name in names):
        raise ConfigInvalid(
            f"The data folder {data_dir} contains other files, and a data folder is closed to other users.",
            hint="Choose an empty folder with --data-dir, or one that does not exist yet.",
        )


def give_to_owner_of_folder(path: Path) -> None:
    """Give a file that root wrote to the owner of its folder, whose daemon must be able to open it.

    Ownership is changed only if it differs, because the service's sandbox forbids chown.
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
        if folder.is_dir() and (folder == data_dir or not folder.is_symlink()):
            yield from (path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
