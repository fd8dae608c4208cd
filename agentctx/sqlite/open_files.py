"""Whether the files at the path of an open database are still the ones that are open, and what follows.

A file that is removed or replaced stays open: SQLite would write to it, and acknowledge, until the process
ends and the file is gone.
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


class Standing(Enum):
    """What a path leads to."""

    OURS = auto()
    ABSENT = auto()
    OTHER = auto()
    UNKNOWN = auto()
    """It could not be looked at, so nothing is concluded."""


class Remedy(Enum):
    """What to do about the files of a database."""

    NONE = auto()
    RENEW_WAL = auto()
    """Move everything from the open WAL into the database, and begin another."""
    WRITE_OUT = auto()
    """Write a copy of the open database to the path, which is free."""
    WRITE_BESIDE = auto()
    """Write a copy of the open database beside the path, which another file has taken."""
    AWAIT_RETURN = auto()
    """Nothing is lost, and a second copy would only diverge: wait until it is moved back."""


@dataclass(frozen=True, slots=True)
class FilesAtPath:
    """What is at the path of a database, compared with what is open."""

    database: Standing
    side_files: Standing = Standing.OURS
    """The WAL and its index; what is wrong with either."""
    moved_to: Path | None = None
    """Where the open database is, if it has a name elsewhere."""


def choose_remedy(facts: FilesAtPath) -> Remedy:
    if facts.database in {Standing.OURS, Standing.UNKNOWN}:
        is_whole = facts.database is Standing.UNKNOWN or facts.side_files in {Standing.OURS, Standing.UNKNOWN}
        return Remedy.NONE if is_whole else Remedy.RENEW_WAL
    if facts.moved_to is not None:
        return Remedy.AWAIT_RETURN
    return Remedy.WRITE_OUT if facts.database is Standing.ABSENT else Remedy.WRITE_BESIDE


def loss(facts: FilesAtPath, path: Path) -> StorageFailed | None:
    """The error for saves; None while the files are in their place."""
    match choose_remedy(facts):
        case Remedy.NONE:
            return None
        case Remedy.RENEW_WAL:
            return StorageFailed(
                f"The WAL of {path} was removed or replaced.",
                hint="Saving resumes within seconds. Stop the daemon before touching its files.",
            )
        case Remedy.WRITE_OUT:
            return StorageFailed(
                f"{path} was removed while open.",
                hint="It is being written again; saving resumes then. Stop the daemon before removing files.",
            )
        case Remedy.WRITE_BESIDE:
            return StorageFailed(
                f"{path} was replaced by another file.",
                hint="The replaced database is written to a file beside it. Stop the daemon before "
                "replacing its files, and use `agentctx restore`.",
            )
        case Remedy.AWAIT_RETURN:
            return moved_away(facts, path)


def moved_away(facts: FilesAtPath, path: Path) -> StorageFailed:
    """The error when the open database is at `facts.moved_to`."""
    place = facts.moved_to
    blocked = " and another file put in its place" if facts.database is Standing.OTHER else ""
    elsewhere = ""
    if place is not None and place.name == path.name:
        elsewhere = f", or stop the daemon and start it with --data-dir {place.parent}"
    return StorageFailed(
        f"{path} was moved to {place}{blocked}.",
        hint=f"Move it back, and saving resumes{elsewhere}. Nothing is lost.",
    )


class OpenFiles:
    """The files of a database that this process has open, as they were when it was opened.

    `close` it after the connections.
    """

    def __init__(self, path: Path) -> None:
        """Raises `StorageFailed` when there is no database at the path."""
        self.path = path
        self._descriptor = _anchor(path)
        status = path.stat() if self._descriptor is None else os.fstat(self._descriptor)
        self._database: Identity = (status.st_dev, status.st_ino)
        self._side_paths = tuple(path.with_name(path.name + end) for end in SIDE_FILES)
        self._side_files: dict[Path, Identity] = {}
        self._learn_side_files()

    def facts(self) -> FilesAtPath:
        """Compare what is at the path with what is open. Blocks for some microseconds."""
        database = self._standing(self.path, self._database)
        if database is Standing.OURS:
            self._learn_side_files()
            return FilesAtPath(database, self._worst_side_file())
        if database is Standing.UNKNOWN:
            return FilesAtPath(database)
        return FilesAtPath(database, moved_to=self._moved_to())

    def loss(self) -> StorageFailed | None:
        """As `loss`, of the files as they are now."""
        return loss(self.facts(), self.path)

    def forget_side_files(self) -> None:
        """SQLite makes others when it opens the database again."""
        self._side_files.clear()

    def side_files(self, standing: Standing) -> Iterator[Path]:
        """Those that are at the path and are ours, or are not."""
        for path in self._side_paths:
            known = self._side_files.get(path)
            found = Standing.OTHER if known is None else self._standing(path, known)
            if path.exists() and found is standing:
                yield path

    @property
    def source(self) -> Path | None:
        """Where the open database can be read, whatever name it has; None where the system offers no way."""
        return None if self._descriptor is None else _DESCRIPTORS / str(self._descriptor)

    def close(self) -> None:
        """Let go of the file. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _learn_side_files(self) -> None:
        """SQLite makes them at the first read or write."""
        for path in self._side_paths:
            with contextlib.suppress(OSError):  # it is looked at again
                if path not in self._side_files and (found := _identity(path)) is not None:
                    self._side_files[path] = found

    def _worst_side_file(self) -> Standing:
        found = {self._standing(path, known) for path, known in self._side_files.items()}
        order = (Standing.OTHER, Standing.ABSENT, Standing.UNKNOWN)
        return next((standing for standing in order if standing in found), Standing.OURS)

    def _standing(self, path: Path, known: Identity) -> Standing:
        try:
            found = _identity(path)
        except OSError:
            return Standing.UNKNOWN
        if found is None:
            return Standing.ABSENT
        return Standing.OURS if found == known else Standing.OTHER

    def _moved_to(self) -> Path | None:
        if self.source is None:
            return None
        try:
            place = self.source.readlink()
        except OSError:
            return None
        return place if self._standing(place, self._database) is Standing.OURS else None


def _identity(path: Path) -> Identity | None:
    """None when nothing is there. Raises OSError when that is unknown."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def _anchor(path: Path) -> int | None:
    """Keeps the file there, whatever happens to its names; None where the system offers no way.

    O_PATH takes no POSIX lock, and drops none when it is closed.
    """
    if not hasattr(os, "O_PATH"):
        return None
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise StorageFailed(f"Cannot open the database {path}: {error.strerror}.") from error
