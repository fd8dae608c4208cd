"""Exclusive ownership: a lock file in the data folder, and one beside the socket.

A lock file can be moved or removed with its folder while its owner runs. So its path is claimed too, with an
abstract socket named after the path, which the kernel releases when the process ends.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import socket
import stat
import struct
import sys
from contextlib import ExitStack
from pathlib import Path

from agentctx.errors import AlreadyRunning, ConfigInvalid
from agentctx.storage.private_files import give_to_owner_of_folder

DATA_LOCK_NAME = "agentctx.lock"
_UCRED = struct.Struct("3i")


def data_lock_path(data_dir: Path) -> Path:
    return data_dir / DATA_LOCK_NAME


def socket_lock_path(socket_path: Path) -> Path:
    return socket_path.with_name(socket_path.name + ".lock")


def acquire_lock(path: Path) -> ExitStack:
    """Acquire the lock and write our pid into its file; close what is returned to release it.

    The folder is created, private to its owner, if missing. The kernel releases the lock when the process
    ends for any reason. The file stays: if it were removed, two daemons could each hold a lock, one on the
    removed file and one on a new file.

    Raises `AlreadyRunning` with the owner's pid, without waiting; `ConfigInvalid` if the file cannot be used.
    """
    with ExitStack() as held:
        # Claim first: a daemon that is refused must not recreate a folder that was moved away.
        claim = _claim_path(path)
        if claim is not None:
            held.enter_context(claim)
        held.callback(os.close, _lock_file(path))
        if claim is None and (claim := _claim_path(path)) is not None:
            held.enter_context(claim)
        return held.pop_all()


def _lock_file(path: Path) -> int:
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise _already_running(path, owner if owner.isdigit() else "") from None
    except OSError as error:
        os.close(descriptor)
        raise ConfigInvalid(
            f"{path} cannot be locked: {error.strerror}.", hint="Use a folder on a local disk."
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _claim_path(path: Path) -> socket.socket | None:
    """Claim the lock file's path; return None if that is impossible or another user has claimed it.

    Raises:
        AlreadyRunning: a process of this user or root has claimed it, even if its lock file was moved away.
    """
    folder = path.absolute().parent
    if sys.platform != "linux" or not folder.parent.is_dir():
        return None
    name = _name_of(folder, path.name)
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        claim.bind(name)
        claim.listen(1)
    except OSError as error:
        claim.close()
        if error.errno == errno.EADDRINUSE and (owner := _claimant(name)) is not None:
            raise _already_running(path, owner) from None
        return None
    return claim


def _name_of(folder: Path, file: str) -> bytes:
    """Name the claim after the parent's inode: the parent stays in place, and differs between containers."""
    above = folder.parent.stat()
    identity = f"{above.st_dev} {above.st_ino} {folder.name}/{file}"
    return b"\0agentctx " + hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest().encode()


def _claimant(name: bytes) -> str | None:
    """Return the pid of the listening process, or "" if it is unknown.

    Return None if it belongs to another user, who could claim any name to keep us from starting.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(name)
            pid, uid, _ = _UCRED.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        except OSError:
            return None
    return (str(pid) if pid else "") if uid in {os.geteuid(), 0} else None


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Follow no link: another user's link in a shared folder could make us write elsewhere.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:  # a second name is somebody's file
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is not a file of agentctx")
        give_to_owner_of_folder(path)
        return descriptor
    except OSError as error:
        raise ConfigInvalid(
            f"The lock file {path} cannot be opened: {error.strerror}.",
            hint="Choose a folder owned by the daemon's user.",
        ) from error


def _already_running(path: Path, owner: str) -> AlreadyRunning:
    who = f"pid {owner}" if owner else "its pid is not known yet"
    stop = f"stop it with `kill {owner}`" if owner else "stop it"
    return AlreadyRunning(
        f"Another agentctx daemon ({who}) has locked {path}.",
        hint=f"Use that one, {stop}, or choose another --data-dir and --socket.",
    )
