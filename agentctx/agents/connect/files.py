"""Reads and replaces the user's files that belong to other programs."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agentctx.config.bounded_files import read_bounded
from agentctx.errors import ConfigInvalid

MAX_BYTES = 1 << 20
"""Larger settings are left to the user: an edit reads them several times, about a MiB a second."""
_PRIVATE = 0o600


def real_path_of(path: Path, roots: Sequence[Path]) -> Path:
    """Return the real path of a file, resolving symbolic links.

    Raises:
        ConfigInvalid: the path is outside of `roots`, not a regular file, owned by another user, in a folder
            that is not writable, or a loop of links.
    """
    real = _resolved(path)
    if not any(real.is_relative_to(root.resolve()) for root in roots):
        raise ConfigInvalid(
            f"{path} leads outside your home, to {real}.", hint="Edit that file yourself, or remove the link."
        )
    existing = next(each for each in (real, *real.parents) if each.exists())
    status = existing.stat()
    if status.st_uid != os.getuid():
        raise ConfigInvalid(
            f"{existing} belongs to another user.", hint="Change its owner, or edit it as that user."
        )
    if existing == real and not stat.S_ISREG(status.st_mode):
        raise ConfigInvalid(f"{path} is not a file.", hint="Remove it, then try again.")
    folder = existing.parent if existing == real else existing
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigInvalid(f"{folder} is not writable.", hint="Change its permissions, then try again.")
    return real


def _resolved(path: Path) -> Path:
    try:
        real = path.resolve()
    except (OSError, RuntimeError):
        real = path
    # From Python 3.13 on, a loop of links is not an error, and remains in the path.
    if any(each.is_symlink() for each in (real, *real.parents)):
        raise ConfigInvalid(f"{path} is a broken link.", hint="Remove the link.")
    return real


def content(path: Path, most: int = MAX_BYTES) -> bytes | None:
    """Return the bytes of a file, at most `most`, or None if it does not exist.

    Raises:
        ConfigInvalid: it is too large to be a config file, not a regular file, or unreadable.
    """
    try:
        return read_bounded(path, most)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigInvalid(f"{path} cannot be read: {error.strerror}.", hint="Edit it yourself.") from error


def replace(path: Path, new: bytes) -> list[Path]:
    """Replace a file atomically, keeping its mode; return the folders that were created."""
    made = [each for each in path.parents if not each.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else _PRIVATE
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(new)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync(path.parent)
    return made


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove those of the folders that are empty."""
    for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
        with suppress(OSError):  # not empty, or already gone
            folder.rmdir()


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
