"""List the files of a folder in use by a daemon, which may remove one between listing and reading."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest


def vanishes_when_looked_at(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove files of this name when they are examined or read, after they were listed."""
    lstat, read = Path.lstat, Path.read_bytes

    def gone(path: Path) -> Path:
        if path.name == name:
            path.unlink(missing_ok=True)
        return path

    monkeypatch.setattr(Path, "lstat", lambda path: lstat(gone(path)))
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(gone(path)))


def modes(folder: Path) -> dict[str, int]:
    """Return the permissions of each regular file directly in `folder`, by name."""
    found = {}
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                found[path.name] = stat.S_IMODE(status.st_mode)
    return found


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield each regular file below `folder` with its content, sorted by path within a folder.

    A write-ahead log comes before its database: a checkpoint between the two readings moves pages from the
    first to the second, where they are found.

    Only for a process that has no connection to a database in it: closing a file would drop SQLite's locks.
    """
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for path in (Path(parent) / name for name in sorted(names, key=_log_first)):
            with suppress(FileNotFoundError):
                if path.is_file():
                    yield path, path.read_bytes()


def _log_first(name: str) -> tuple[bool, str]:
    return not name.endswith("-wal"), name
