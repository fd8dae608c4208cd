"""Keeps the daemon reachable: its socket file is made, watched, made again when it is gone, and removed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from agentctx.config.schema import ServerSettings
from agentctx.errors import AgentctxError
from agentctx.host.listen import bind_socket, remove_socket, socket_inode

log = structlog.get_logger("agentctx.daemon")

LOOK_EVERY_S = 2.0
"""Clients wait for a daemon that does not listen for 5 s by default: they do not notice."""


class SocketKeeper:
    """The socket file of one daemon. Hold the lock of `lock.socket_lock_path(path)` around its life."""

    def __init__(self, path: Path, settings: ServerSettings) -> None:
        self.path = path
        self._mode = int(settings.socket_mode, 8)
        self._group = settings.socket_group
        self._inode: tuple[int, int] | None = None
        self._problem: str | None = None

    def bind(self) -> socket.socket:
        """A listening socket at the path. Raises as `bind_socket`."""
        listening = bind_socket(self.path, self._mode, self._group)
        self._inode = socket_inode(self.path)
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
        """Have `move` accept on a new socket whenever the file is gone. Ends when it is cancelled.

        Something cleans up temporary and runtime folders now and then, and an unreachable daemon
        cannot even be asked what is wrong. Whatever is at the path instead is left alone.
        """
        while True:
            await sleep(LOOK_EVERY_S)
            if self._is_gone():
                await self._bind_again(move)

    def _is_gone(self) -> bool:
        """Whether nothing is at the path. What cannot be looked at is left alone."""
        try:
            return not self.path.is_symlink() and not self.path.exists()
        except OSError:
            return False

    async def _bind_again(self, move: Callable[[socket.socket], Awaitable[None]]) -> None:
        try:
            listening = self.bind()
        except AgentctxError as error:
            self._tell(error)
            return
        await move(listening)
        self._problem = None
        log.warning("socket_bound_again", socket=str(self.path), reason="its file was removed")

    def _tell(self, error: AgentctxError) -> None:
        """Once for each reason: it is tried again and again."""
        if error.message != self._problem:
            self._problem = error.message
            log.error("socket_is_gone", code=error.code, problem=error.message, hint=error.hint)
