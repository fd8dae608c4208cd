"""The Unix socket file: created with its final permissions, replaced if stale, removed only if ours."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import grp
import os
import socket
import stat
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, TypeAlias

import structlog

from agentctx.config.paths import MAX_SOCKET_PATH_BYTES
from agentctx.config.schema import ServerSettings
from agentctx.errors import AgentctxError, AlreadyRunning, ConfigInvalid

BACKLOG = 1_024
_PROBE_TIMEOUT_S = 1.0
SocketAnswer: TypeAlias = Literal["listening", "gone", "denied"]
log = structlog.get_logger("agentctx.daemon")

CHECK_INTERVAL_S = 2.0
"""By default clients wait 5 s for a daemon to listen, so they do not notice a replaced socket."""


def bind_socket(path: Path, mode: int = 0o600, group: str = "") -> socket.socket:
    """Return a listening, non-blocking Unix socket at `path`.

    The folder is created with mode 0700 if missing; a world-writable folder is refused unless it is sticky,
    like /tmp. A stale socket file is replaced. The file has mode 0600 until its group is set, and no client
    can connect before it has `mode`. Hold the lock on `lock.socket_lock_path(path)` while calling this:
    without it, two daemons could replace each other's file.

    Raises `AlreadyRunning` if another process listens there, and `ConfigInvalid` if the socket cannot be
    created: path too long, something else at the path, unknown group, no permission.
    """
    _check_length(path)
    try:
        _prepare_folder(path.parent)
        _remove_stale(path)
        return _bind(path, mode, _group_id(group))
    except OSError as error:
        raise ConfigInvalid(
            f"Cannot create a socket at {path}: {error.strerror or error}.",
            hint="Choose another path with --socket.",
        ) from error


def socket_inode(path: Path) -> tuple[int, int]:
    """Return the device and inode of the file at `path`, by which `remove_socket` recognises it."""
    status = path.lstat()
    return status.st_dev, status.st_ino


def remove_socket(path: Path, inode: tuple[int, int]) -> bool:
    """Remove the socket file if it still has this device and inode; return whether it did."""
    with contextlib.suppress(FileNotFoundError):
        if socket_inode(path) == inode and stat.S_ISSOCK(path.lstat().st_mode):  # inodes are used again
            path.unlink()
            return True
    return False


def _check_length(path: Path) -> None:
    length = len(os.fsencode(path))
    if length > MAX_SOCKET_PATH_BYTES:
        raise ConfigInvalid(
            f"The socket path {path} has {length} bytes; the system allows {MAX_SOCKET_PATH_BYTES}.",
            hint="Choose a shorter path with --socket.",
        )


def _prepare_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise ConfigInvalid(
            f"Every user can write to {folder}, so anyone could put another socket there.",
            hint=f"Run `chmod o-w {folder}`, or choose another path with --socket.",
        )


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigInvalid(
            f"{path} is not a socket; it was left unchanged.",
            hint="Move it, or choose another --socket.",
        )
    answer = probe_socket(path)
    if answer == "denied":
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if answer == "listening":
        raise AlreadyRunning(
            f"Another process listens on {path}.",
            hint="Use that daemon, stop it, or choose another path with --socket.",
        )
    path.unlink()


def probe_socket(path: Path) -> SocketAnswer:
    """Connect to the socket, and return what that shows. A full backlog or a slow answer means a listener."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_TIMEOUT_S)
        try:
            probe.connect(os.fspath(path))
        except OSError as error:
            if error.errno in {errno.ECONNREFUSED, errno.ENOENT}:
                return "gone"
            return "denied" if error.errno in {errno.EACCES, errno.EPERM} else "listening"
    return "listening"


def is_served_by(path: Path, pid: int) -> bool:
    """Return whether this process listens on the socket at `path`.

    True if the listener is unknown: its backlog is full, or the system does not say.
    """
    if not stat.S_ISSOCK(path.lstat().st_mode):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
            credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except ConnectionRefusedError:
            return False
        except (OSError, AttributeError):
            return True
    return bool(struct.unpack("3i", credentials)[0] == pid)


def group_problem(group: str) -> ConfigInvalid | None:
    """Return why the socket cannot belong to the group, or None; without a name it keeps its group."""
    try:
        _group_id(group)
    except ConfigInvalid as error:
        return error
    return None


def _group_id(group: str) -> int | None:
    if not group:
        return None
    try:
        return grp.getgrnam(group).gr_gid
    except (KeyError, ValueError):
        raise ConfigInvalid(
            f"Unknown group {group!r}.", hint="Create it, or set server.socket_group to an existing group."
        ) from None


def _bind(path: Path, mode: int, group_id: int | None) -> socket.socket:
    with contextlib.ExitStack() as undo:
        sock = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        before = os.umask(0o177)
        try:
            sock.bind(os.fspath(path))
        finally:
            os.umask(before)
        undo.callback(path.unlink)
        if group_id is not None:
            _set_group(path, group_id)
        path.chmod(mode)
        sock.listen(BACKLOG)
        sock.setblocking(False)
        undo.pop_all()
    return sock


def _set_group(path: Path, group_id: int) -> None:
    try:
        os.chown(path, -1, group_id)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
        raise ConfigInvalid(
            f"The daemon's user may not change the group of {path} to server.socket_group.",
            hint="Add the user to that group.",
        ) from error


class SocketWatcher:
    """Manages the socket file of one daemon. Hold the lock on `lock.socket_lock_path(path)` throughout."""

    def __init__(self, path: Path, settings: ServerSettings) -> None:
        self.path = path
        self._mode = int(settings.socket_mode, 8)
        self._group = settings.socket_group
        self._inode: tuple[int, int] | None = None
        self._made = 0
        """When the file was last changed, in nanoseconds since the epoch."""
        self._problem: str | None = None

    def bind(self) -> socket.socket:
        """Return a listening socket at the path. Raises the same errors as `bind_socket`."""
        listening = bind_socket(self.path, self._mode, self._group)
        self._inode, self._made = socket_inode(self.path), self.path.lstat().st_mtime_ns
        return listening

    def remove(self) -> None:
        """Remove the file if it is still ours."""
        if self._inode is not None:
            remove_socket(self.path, self._inode)

    async def watch(
        self,
        move: Callable[[socket.socket], Awaitable[None]],
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Bind a new socket and pass it to `move` whenever the file is gone. Runs until cancelled.

        Cleanup jobs delete files in temporary and runtime folders, and an unreachable daemon cannot even be
        asked what is wrong. If something else is at the path, it is logged and left alone until it is gone.
        """
        while True:
            await sleep(CHECK_INTERVAL_S)
            if self._is_lost():
                await self._bind_again(move)

    def _is_lost(self) -> bool:
        """Whether the path does not lead to our socket; False if the path cannot be accessed."""
        try:
            made = self.path.lstat().st_mtime_ns
            if socket_inode(self.path) == self._inode and made != self._made:
                # Something touched it, or another file has got the inode of a removed one.
                self._made = made if is_served_by(self.path, os.getpid()) else 0
            return socket_inode(self.path) != self._inode or made != self._made
        except FileNotFoundError:
            return True
        except OSError:
            return False

    async def _bind_again(self, move: Callable[[socket.socket], Awaitable[None]]) -> None:
        try:
            listening = self.bind()
        except AgentctxError as error:
            self._log_problem(error)
            return
        await move(listening)
        self._problem = None
        log.warning("socket_bound_again", socket=str(self.path), reason="its file was removed")

    def _log_problem(self, error: AgentctxError) -> None:
        """Log each problem only once, because the bind is retried over and over."""
        if error.message != self._problem:
            self._problem = error.message
            log.error("socket_is_gone", code=error.code, problem=error.message, hint=error.hint)
