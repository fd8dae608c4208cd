"""Detects that the files of an open database were removed, moved or replaced.

Such a file stays open: SQLite would keep writing to it and acknowledging saves, until the process ends and
the file is gone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, TypeAlias

from agentctx.errors import StorageFailed

Identity: TypeAlias = tuple[int, int]
"""Device and inode."""

SIDE_FILES: Final = ("-wal", "-shm")
_DESCRIPTORS: Final = Path("/proc/self/fd")


class OpenFiles:
    """The files of a database that this process has open, identified when it was opened.

    `close` it after the connections.
    """

    def __init__(self, path: Path) -> None:
        """Raise `StorageFailed` if there is no database at the path."""
        self.path = path
        self._descriptor = _anchor(path)
        status = path.stat() if self._descriptor is None else os.fstat(self._descriptor)
        self._side_paths = tuple(path.with_name(path.name + end) for end in SIDE_FILES)
        self._known: dict[Path, Identity] = {path: (status.st_dev, status.st_ino)}

    def loss(self) -> StorageFailed | None:
        """Return what happened to the files; None while they are in place, or cannot be examined.

        Blocks for some microseconds.
        """
        for path in (self.path, *self._side_paths):
            try:
                found = _identity(path)
            except OSError:
                continue
            known = self._known.get(path)
            if known is None and found is not None:
                # SQLite creates the WAL and its index at the first read or write.
                self._known[path] = found
            elif known != found:
                what = "removed or moved" if found is None else "replaced by another file"
                return StorageFailed(
                    f"{path} was {what} while it was open.",
                    hint="The daemon writes all that was saved into a copy, and ends. "
                    "Stop it before you touch its files.",
                )
        return None

    def forget_side_files(self) -> None:
        """Forget the WAL and its index, because SQLite creates new ones when it opens the database again."""
        for path in self._side_paths:
            self._known.pop(path, None)

    def remove_side_files(self) -> None:
        """Remove what is left of the WAL of a database that is gone: SQLite would use it with the next one.

        Raises:
            OSError.
        """
        if _identity(self.path) == self._known[self.path]:
            return
        for path in self._side_paths:
            found = _identity(path)
            if found is not None and found == self._known.get(path):
                path.unlink()

    @property
    def source(self) -> Path | None:
        """A path to read the open database from, whatever its name; None if the system has no such path."""
        return None if self._descriptor is None else _DESCRIPTORS / str(self._descriptor)

    def close(self) -> None:
        """Close the anchor. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _identity(path: Path) -> Identity | None:
    """Return the identity of a file; None if there is no file. Raises OSError if this is unknown."""
    try:
        status = os.stat(str(path))  # noqa: PTH116 - `Path.stat` takes half as long again
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
