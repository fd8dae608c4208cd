"""uvicorn on given sockets, started and stopped by its owner instead of by signals."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from agentctx.config.schema import ServerSettings
from agentctx.server.peer import Connection, Open, answer
from agentctx.storage.quotas import Quotas

STREAM_DRAIN_S = 25.0
"""How long a stop waits for the begun replies of vendors; systemd kills the daemon after 45 s."""
CUT_S = 1.0
_TICK_S = 0.005


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
        self._timeout_s = settings.shutdown_timeout_s
        self._open = Open()
        connection = partial(Connection, app, settings, quotas, self._open)
        self._config = _config(cast("type[asyncio.Protocol]", connection), settings.keep_alive_s)
        self._servers: list[_Server] = []
        self._serving: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._done = asyncio.Event()
        self._done.set()
        self.started = asyncio.Event()

    async def serve(self) -> None:
        """Serve until `stop()`. The sockets are closed at the end, even if this is cancelled."""
        self._done.clear()
        try:
            if not self._stopping.is_set():
                await self._accept(self._sockets)
                self.started.set()
                await self._stopping.wait()
                self._stop_accepting()
                await self._drain()
        finally:
            self._stop_accepting()
            for request in self._open.requests:
                request.task.cancel()
            self._abort()
            await asyncio.gather(*self._serving)
            for sock in self._sockets:
                sock.close()
            self._done.set()

    async def move(self, sock: socket.socket) -> None:
        """Accept on another listening socket, and close the previous ones with their idle connections.

        Call it after `started` is set.
        """
        self._stop_accepting()
        self._sockets = [sock]
        await self._accept(self._sockets)

    async def stop(self) -> None:
        """Stop accepting, close idle connections, and give running requests `shutdown_timeout_s` to finish;
        then cancel them with a 503. Idempotent.
        """
        self._stopping.set()
        await self._done.wait()

    async def _accept(self, sockets: list[socket.socket]) -> None:
        server = _Server(self._config)
        serving = asyncio.create_task(server.serve(sockets))
        self._servers.append(server)
        self._serving.append(serving)
        while not (server.started or serving.done()):  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(_TICK_S)
        if serving.done():
            await serving  # raises why it did not start

    def _stop_accepting(self) -> None:
        for server in self._servers:
            server.exit()

    async def _drain(self) -> None:
        """Wait for requests, and longer for replies of vendors, since they take minutes; the rest is cut."""
        await asyncio.wait(self._serving, timeout=self._timeout_s)
        streaming = [request for request in self._open.requests if request.is_streaming]
        for request in self._open.requests.difference(streaming):
            request.task.cancel()
        await asyncio.wait(self._serving, timeout=STREAM_DRAIN_S if streaming else CUT_S)
        self._abort()
        await asyncio.wait(self._serving, timeout=CUT_S)

    def _abort(self) -> None:
        for connection in self._open.connections:
            connection.abort()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._exiting = asyncio.Event()

    def exit(self) -> None:
        self.should_exit = True
        self._exiting.set()

    async def main_loop(self) -> None:
        """Wait for `exit`; uvicorn's looks for it ten times a second."""
        await self._exiting.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the daemon handles signals


def _config(connection: type[asyncio.Protocol], keep_alive_s: float) -> uvicorn.Config:
    return uvicorn.Config(
        answer,
        http=connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=keep_alive_s,  # type: ignore[arg-type]  # a delay of asyncio, which takes floats
        reset_contextvars=False,  # a context variable has the connection
    )
