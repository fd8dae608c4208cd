"""Checks that the data folder and its files belong to the right user and are closed to others."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentctx.doctor.check import Finding, check, failed, passed, skipped, warned
from agentctx.doctor.contexts import Machine
from agentctx.wire.wording import counted, listed

FOLDER_MODE = 0o700
FILE_MODE = 0o600


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file or folder with its owner and permission bits."""

    name: str
    uid: int
    mode: int


@check(Machine, "files.folder", fix=lambda machine: _restrict([machine.folder], FOLDER_MODE))
def check_folder(machine: Machine) -> Finding:
    folder, me = machine.folder, os.geteuid()
    if not folder.exists():
        return _nothing_there(folder)
    if not folder.is_dir():
        return failed(f"{folder} is not a folder", hint="Choose another one with --data-dir.")
    socket = machine.look_at_socket() if machine.contact.status is not None else None
    return judge_folder(_facts(folder), owner=socket.uid if socket else me, me=me)


def _nothing_there(folder: Path) -> Finding:
    return skipped(f"nothing is saved yet: {folder} does not exist")


def judge_folder(folder: FileFacts, *, owner: int, me: int) -> Finding:
    """Judge the folder. `owner` is the daemon's user, `me` the user of this command; 0 may do everything."""
    if folder.uid != owner and me != 0:
        return failed(
            f"{folder.name} belongs to {user_name(folder.uid)}; the daemon would run as {user_name(owner)}",
            hint=f"Run this as {user_name(folder.uid)}, or choose another folder with --data-dir.",
        )
    if folder.mode != FOLDER_MODE:
        verdict = failed if folder.mode & 0o007 or folder.mode & 0o700 != 0o700 else warned
        return verdict(
            f"{folder.name} has mode {folder.mode:04o}, it should be {FOLDER_MODE:04o}",
            hint=f"Run `chmod {FOLDER_MODE:o} {folder.name}`.",
            fixable=me in {0, folder.uid},
        )
    return passed(f"{folder.name} is accessible only to its owner")


def _restrict_files(machine: Machine) -> str:
    exposed = [file.name for file in _files(machine.folder) if file.mode != FILE_MODE]
    return _restrict([machine.folder / name for name in exposed], FILE_MODE)


@check(Machine, "files.permissions", fix=_restrict_files)
def check_files(machine: Machine) -> Finding:
    folder = machine.folder
    if not folder.is_dir():
        return _nothing_there(folder)
    if not os.access(folder, os.R_OK | os.X_OK):
        return skipped(
            f"{folder} is not accessible to {user_name(os.geteuid())}",
            hint=f"Run this as {user_name(folder.stat().st_uid)} to check its files.",
        )
    return judge_files(_files(folder), owner=folder.stat().st_uid, me=os.geteuid())


def judge_files(files: Sequence[FileFacts], *, owner: int, me: int) -> Finding:
    """Judge the files in the folder, which must all belong to `owner`, the owner of the folder."""
    foreign = [file for file in files if file.uid != owner]
    if foreign:
        return failed(
            f"{counted(len(foreign), 'file')} owned by another user than the folder",
            detail=listed(f"{file.name} of {user_name(file.uid)}" for file in foreign),
            hint=f"As root, `chown` them to {user_name(owner)}; the daemon must always run as the same user.",
        )
    open_files = [file for file in files if file.mode != FILE_MODE]
    if open_files:
        return failed(
            f"{counted(len(open_files), 'file')} should have mode {FILE_MODE:04o}: they contain saved data",
            detail=listed(f"{file.name} has {file.mode:04o}" for file in open_files),
            hint=f"Run `agentctx doctor --fix`, or `chmod {FILE_MODE:o}` on them.",
            fixable=me in {0, owner},
        )
    return passed(f"{counted(len(files), 'file')}, readable only by the owner")


def _files(folder: Path) -> list[FileFacts]:
    """Return the regular files, not links. None is opened, because closing it would drop SQLite's locks.

    A running daemon may remove a file meanwhile, as SQLite does with the WAL.
    """
    files = []
    for path in sorted(folder.iterdir()):
        with suppress(FileNotFoundError):
            if stat.S_ISREG(path.lstat().st_mode):
                files.append(_facts(path))
    return files


def _facts(path: Path) -> FileFacts:
    status = path.lstat()
    name = str(path) if stat.S_ISDIR(status.st_mode) else path.name
    return FileFacts(name, status.st_uid, stat.S_IMODE(status.st_mode))


def _restrict(paths: Sequence[Path], mode: int) -> str:
    for path in paths:
        path.chmod(mode)
    return f"set mode {mode:04o} on {listed(path.name for path in paths)}"


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
