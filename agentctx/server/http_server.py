"""uvicorn on given sockets, started and stopped by its owner instead of by signals."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from agentctx.config.schema import ServerSettings
from agentctx.server.connection import PeerProtocol, protocol_class
from agentctx.storage.quotas import Quotas

STREAM_DRAIN_S = 25.0
"""How long a stop waits for the begun replies of vendors; systemd kills the daemon after 45 s."""
CUT_S = 1.0


class HttpServer:
    """Serves `app` on listening sockets.

    `serve()` returns after `stop()`; `started` is set once connections are accepted.
    """

    def __init__(
        self,
        app: ASGIApp,
        sockets: Sequence[socket.socket],
        settings: ServerSettings,
        quotas: Quotas | None = None,
    ) -> None:
        self._sockets = list(sockets)
        self._server = _Server(_config(app, settings, quotas), settings.shutdown_timeout_s)
        self._done = asyncio.Event()
        self._done.set()
        self.started = self._server.accepting

    async def serve(self) -> None:
        """Serve until `stop()`. The sockets are closed at the end, even if this is cancelled."""
        self._done.clear()
        try:
            await self._server.serve(self._sockets)
        finally:
            self._server.drop(self._sockets)
            self._done.set()

    async def move(self, sock: socket.socket) -> None:
        """Accept on another listening socket, and close the previous ones. Open connections stay.

        Call it after `started` is set.
        """
        before, self._sockets[:] = list(self._sockets), [sock]
        await self._server.move(sock)
        for old in before:
            old.close()

    async def stop(self) -> None:
        """Stop accepting, close idle connections, and give running requests `shutdown_timeout_s` to finish;
        then cancel them with a 503. Idempotent.
        """
        self._server.stopping.set()
        await self._done.wait()


def _config(app: ASGIApp, settings: ServerSettings, quotas: Quotas | None) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=protocol_class(settings, quotas),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
    )
    config.timeout_keep_alive = settings.keep_alive_s  # type: ignore[assignment]  # call_later takes floats
    return config


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, shutdown_timeout_s: float) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()
        self.stopping = asyncio.Event()
        self._shutdown_timeout_s = shutdown_timeout_s

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the daemon handles signals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.accepting.set()

    async def move(self, sock: socket.socket) -> None:
        before = self.servers
        await super().startup([sock])
        for server in before:
            server.close()

    async def main_loop(self) -> None:
        await self.stopping.wait()  # uvicorn's own loop wakes up ten times a second

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stop_accepting(sockets or [])
        for connection in self._connections():
            connection.shutdown()
        try:
            async with asyncio.timeout(self._shutdown_timeout_s):
                await self._finish_requests()
                await self._flush_connections()
        except TimeoutError:
            await self._finish_streams()
            for task in self.server_state.tasks:
                task.cancel()
            await self._finish_requests()

    async def _finish_streams(self) -> None:
        """Give replies of vendors more time, since they take minutes; then cut them, so that peers notice."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STREAM_DRAIN_S):
                while any(connection.is_streaming for connection in self._connections()):
                    await asyncio.wait(self.server_state.tasks, return_when=asyncio.FIRST_COMPLETED)
        streaming = [connection for connection in self._connections() if connection.is_streaming]
        for connection in streaming:
            connection.cut()
        if streaming:
            await asyncio.wait(self.server_state.tasks, timeout=CUT_S)

    def drop(self, sockets: Sequence[socket.socket]) -> None:
        """Close all sockets and connections immediately."""
        self._stop_accepting(sockets)
        for connection in self._connections():
            connection.abort()

    def _stop_accepting(self, sockets: Sequence[socket.socket]) -> None:
        for server in getattr(self, "servers", []):  # not set before startup
            server.close()
        for sock in sockets:
            sock.close()

    async def _finish_requests(self) -> None:
        while self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks)

    async def _flush_connections(self) -> None:
        for connection in self._connections():
            await connection.closed.wait()

    def _connections(self) -> list[PeerProtocol]:
        return cast("list[PeerProtocol]", list(self.server_state.connections))
