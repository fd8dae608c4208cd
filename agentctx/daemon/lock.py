"""One owner at a time: a lock file for the data folder, and one beside the socket."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from agentctx.errors import AlreadyRunning, ConfigInvalid

DATA_LOCK_NAME = "agentctx.lock"


def data_lock_path(data_dir: Path) -> Path:
    return data_dir / DATA_LOCK_NAME


def socket_lock_path(socket_path: Path) -> Path:
    return socket_path.with_name(socket_path.name + ".lock")


class Lock:
    """A held lock, made by `acquire_lock`.

    The kernel frees it when the process ends, however it ends. The file stays: removing it would let two
    daemons hold a lock each, on the removed file and on a new one.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    def close(self) -> None:
        """Free the lock. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def acquire_lock(path: Path) -> Lock:
    """Take the lock and write our pid into its file. The folder is made, for its owner only, if missing.

    Raises `AlreadyRunning` with the owner's pid, at once; `ConfigInvalid` if there can be no such file.
    """
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = _read_pid(descriptor)
        os.close(descriptor)
        raise _already_running(path, owner) from None
    except OSError as error:
        os.close(descriptor)
        raise ConfigInvalid(
            f"{path} cannot be locked: {error.strerror}.", hint="Use a folder on a local disk."
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return Lock(path, descriptor)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # No link is followed: another user's link in a shared folder would have us write elsewhere.
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigInvalid(
            f"The lock file {path} cannot be opened: {error.strerror}.",
            hint="Choose a folder that belongs to the user of the daemon.",
        ) from error


def _read_pid(descriptor: int) -> str:
    text = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
    return text if text.isdigit() else ""


def _already_running(path: Path, owner: str) -> AlreadyRunning:
    who = f"pid {owner}" if owner else "its pid is not known yet"
    stop = f"stop it with `kill {owner}`" if owner else "stop it"
    return AlreadyRunning(
        f"Another agentctx daemon ({who}) holds {path}.",
        hint=f"Use that one, {stop}, or choose another --data-dir and --socket.",
    )
