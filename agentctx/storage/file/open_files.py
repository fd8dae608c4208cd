"""Detects whether the files at the path of an open database are still the open ones, and chooses a remedy.

A file that is removed or replaced stays open: SQLite would keep writing to it and acknowledging saves, until
the process ends and the file is gone.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final, TypeAlias

from agentctx.errors import StorageFailed

Identity: TypeAlias = tuple[int, int]
"""Device and inode."""

SIDE_FILES: Final = ("-wal", "-shm")
_DESCRIPTORS: Final = Path("/proc/self/fd")


class FileStatus(Enum):
    """What a path leads to."""

    OURS = auto()
    ABSENT = auto()
    OTHER = auto()
    UNKNOWN = auto()
    """The file could not be examined, so nothing is concluded."""


class Remedy(Enum):
    """What to do about the files of a database."""

    NONE = auto()
    RENEW_WAL = auto()
    """Move everything from the open WAL into the database, and start a new WAL."""
    WRITE_OUT = auto()
    """Write a copy of the open database to the path, where there is no file."""
    WRITE_BESIDE = auto()
    """Write a copy of the open database beside the path, where there is another file."""
    AWAIT_RETURN = auto()
    """Wait until the file is moved back: nothing is lost, and a second copy would only diverge."""


@dataclass(frozen=True, slots=True)
class FilesAtPath:
    """The files at the path of a database, compared with the open ones."""

    database: FileStatus
    side_files: FileStatus = FileStatus.OURS
    """The WAL and its index: the worse of both."""
    moved_to: Path | None = None
    """The path of the open database, if it was moved."""


def choose_remedy(facts: FilesAtPath) -> Remedy:
    if facts.database in {FileStatus.OURS, FileStatus.UNKNOWN}:
        is_cut = facts.side_files in {FileStatus.ABSENT, FileStatus.OTHER}
        return Remedy.RENEW_WAL if is_cut and facts.database is FileStatus.OURS else Remedy.NONE
    if facts.moved_to is not None:
        return Remedy.AWAIT_RETURN
    return Remedy.WRITE_OUT if facts.database is FileStatus.ABSENT else Remedy.WRITE_BESIDE


def loss(facts: FilesAtPath, path: Path) -> StorageFailed | None:
    """Return the error for saves; None while the files are in place."""
    remedy = choose_remedy(facts)
    if remedy is Remedy.NONE:
        return None
    if remedy is Remedy.AWAIT_RETURN:
        return moved_away(facts, path)
    message, hint = _LOSSES[remedy]
    return StorageFailed(message.format(path=path), hint=hint)


_LOSSES: Final = {
    Remedy.RENEW_WAL: (
        "The WAL of {path} was removed or replaced.",
        "Saving resumes within seconds. Stop the daemon before touching its files.",
    ),
    Remedy.WRITE_OUT: (
        "{path} was removed while open.",
        "It is being written again; saving resumes then. Stop the daemon before removing files.",
    ),
    Remedy.WRITE_BESIDE: (
        "{path} was replaced by another file.",
        "The replaced database is written beside it. Stop the daemon first, and use `agentctx restore`.",
    ),
}


def moved_away(facts: FilesAtPath, path: Path) -> StorageFailed:
    """Return the error for an open database that was moved to `facts.moved_to`."""
    place = facts.moved_to
    blocked = " and another file put in its place" if facts.database is FileStatus.OTHER else ""
    elsewhere = ""
    if place is not None and place.name == path.name:
        elsewhere = f", or stop the daemon and start it with --data-dir {place.parent}"
    return StorageFailed(
        f"{path} was moved to {place}{blocked}.",
        hint=f"Move it back, and saving resumes{elsewhere}. Nothing is lost.",
    )


class OpenFiles:
    """The files of a database that this process has open, identified when it was opened.

    `close` it after the connections.
    """

    def __init__(self, path: Path) -> None:
        """Raise `StorageFailed` if there is no database at the path."""
        self.path = path
        self._descriptor = _anchor(path)
        status = path.stat() if self._descriptor is None else os.fstat(self._descriptor)
        self._database: Identity = (status.st_dev, status.st_ino)
        self._side_paths = tuple(path.with_name(path.name + end) for end in SIDE_FILES)
        self._side_files: dict[Path, Identity] = {}
        self._learn_side_files()

    def facts(self) -> FilesAtPath:
        """Compare the files at the path with the open ones. Blocks for some microseconds."""
        database = self._standing(self.path, self._database)
        if database is FileStatus.OURS:
            self._learn_side_files()
            return FilesAtPath(database, self._worst_side_file())
        if database is FileStatus.UNKNOWN:
            return FilesAtPath(database)
        return FilesAtPath(database, moved_to=self._moved_to())

    def loss(self) -> StorageFailed | None:
        """Return the error of `loss` for the present files."""
        return None if self._are_in_place() else loss(self.facts(), self.path)

    def _are_in_place(self) -> bool:
        """Return whether all files are known and in place: a cheaper answer than `facts`, for each commit."""
        if len(self._side_files) < len(self._side_paths):
            return False
        try:
            for path, known in ((self.path, self._database), *self._side_files.items()):
                status = os.stat(str(path))  # noqa: PTH116 - `Path.stat` takes half as long again
                if (status.st_dev, status.st_ino) != known:
                    return False
        except OSError:
            return False
        return True

    def forget_side_files(self) -> None:
        """Forget the WAL and its index, because SQLite creates new ones when it opens the database again."""
        self._side_files.clear()

    def side_files(self, standing: FileStatus) -> Iterator[Path]:
        """Yield the side files at the path that are ours (`OURS`), or are not (`OTHER`)."""
        for path in self._side_paths:
            known = self._side_files.get(path)
            found = FileStatus.OTHER if known is None else self._standing(path, known)
            if path.exists() and found is standing:
                yield path

    @property
    def source(self) -> Path | None:
        """A path to read the open database from, whatever its name; None if the system has no such path."""
        return None if self._descriptor is None else _DESCRIPTORS / str(self._descriptor)

    def close(self) -> None:
        """Close the anchor. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _learn_side_files(self) -> None:
        """Remember side files once they exist; SQLite creates them at the first read or write."""
        for path in self._side_paths:
            with contextlib.suppress(OSError):  # the next call tries again
                if path not in self._side_files and (found := _identity(path)) is not None:
                    self._side_files[path] = found

    def _worst_side_file(self) -> FileStatus:
        found = {self._standing(path, known) for path, known in self._side_files.items()}
        order = (FileStatus.OTHER, FileStatus.ABSENT, FileStatus.UNKNOWN)
        return next((standing for standing in order if standing in found), FileStatus.OURS)

    def _standing(self, path: Path, known: Identity) -> FileStatus:
        try:
            found = _identity(path)
        except OSError:
            return FileStatus.UNKNOWN
        if found is None:
            return FileStatus.ABSENT
        return FileStatus.OURS if found == known else FileStatus.OTHER

    def _moved_to(self) -> Path | None:
        if self.source is None:
            return None
        try:
            place = self.source.readlink()
        except OSError:
            return None
        return place if self._standing(place, self._database) is FileStatus.OURS else None


def _identity(path: Path) -> Identity | None:
    """Return the identity of a file; None if there is no file. Raises OSError if this is unknown."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def _anchor(path: Path) -> int | None:
    """Keep the file, whatever happens to its names; return None if the system cannot.

    O_PATH takes no POSIX lock, and drops none when it is closed.
    """
    if not hasattr(os, "O_PATH"):
        return None
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise StorageFailed(f"Cannot open the database {path}: {error.strerror}.") from error
