"""The connections: who is at the other end, as the kernel reports it, and how slowly it may send how much.

Nothing of uvicorn is used but its settings, `Server.serve`, and that `http` takes a protocol. That is
`Connection`, which passes every callback of asyncio on to uvicorn's protocol for httptools. The task of a
request is created within such a callback, or within the task of the request before it on the same connection.
So a context variable tells a request its connection, for which ASGI has no place.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, cast

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from agentctx.config.schema import ServerSettings
from agentctx.errors import AgentctxError, RateLimited, RequestFailed
from agentctx.server.request_limits import LINGER_S, LimitedBody, check_head, refusal
from agentctx.service.base import Peer
from agentctx.storage.quotas import Quotas

AHEAD_BYTES: Final = 256 * 1024
"""How much a peer may send before a head is complete or a reply is read: as much as one read returns."""

_UCRED = struct.Struct("3i")
"""Linux `struct ucred`: pid, uid, gid."""

_XUCRED = struct.Struct("IIh2x16I")
"""macOS `struct xucred`: version, uid, number of groups, groups."""
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2


def peer_of(sock: socket.socket | None) -> Peer | None:
    """Return the process that called `connect()`; None without a Unix socket, or if the kernel does not know.

    The pid is 0 for a process of another PID namespace and can be reused, so it is only for logs. The uid is
    the identity.
    """
    if sock is None or sock.family != socket.AF_UNIX:
        return None
    try:
        return _credentials(sock)
    except OSError:
        return None


@dataclass(slots=True, eq=False)
class RunningRequest:
    """A request that an application is answering."""

    task: asyncio.Task[Any]
    is_proxied: bool
    has_begun: bool = False

    @property
    def is_streaming(self) -> bool:
        """Whether the reply of a vendor has begun."""
        return self.is_proxied and self.has_begun


@dataclass(frozen=True, slots=True)
class Open:
    """The connections and requests of a server. A request outlives its connection until it notices."""

    connections: set[Connection] = field(default_factory=set)
    requests: set[RunningRequest] = field(default_factory=set)


class Connection(asyncio.Protocol):
    """A connection, which ends when a head is late or too long, and when replies are not read.

    Each request gets it in its state, with `peer`, and `cut`, which aborts a reply that cannot be completed.
    """

    def __init__(
        self, app: ASGIApp, settings: ServerSettings, quotas: Quotas | None, open_now: Open, **given: Any
    ) -> None:
        self._http = HttpToolsProtocol(**given)
        self._app = app
        self._settings = settings
        self._quotas = quotas
        self._open = open_now
        self._loop = asyncio.get_running_loop()
        self._is_lost = asyncio.Event()
        self._peer: Peer | None = None
        self._surplus: RateLimited | None = None
        self._received = self._most = 0
        """Bytes since the connection was idle, and their limit."""
        self._head_deadline: asyncio.TimerHandle | None = None
        self._read_deadline: asyncio.TimerHandle | None = None
        self._running = self._begun = 0
        self._is_idle = True
        """Whether no request is running or waiting."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._open.connections.add(self)
        self._peer = peer_of(transport.get_extra_info("socket"))
        if self._quotas is not None and self._peer is not None:
            try:
                self._quotas.connect(self._peer.uid)
            except RateLimited as error:
                self._surplus = error
        self._http.connection_made(self._transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.connections.discard(self)
        if self._quotas is not None and self._peer is not None:
            self._quotas.disconnect(self._peer.uid)
        self._stop_waiting()
        self.resume_writing()
        self._http.connection_lost(exc)
        self._is_lost.set()

    def data_received(self, data: bytes) -> None:
        if self._is_idle:
            self._received, self._most = 0, self._settings.max_header_bytes + AHEAD_BYTES
        if not self._running and self._head_deadline is None:
            self._await_head()
        self._is_idle = False
        self._received += len(data)
        if self._received > self._most:
            self.abort()
            return
        token = _current.set(self)
        try:
            self._http.data_received(data)
        finally:
            _current.reset(token)

    def eof_received(self) -> None:
        self._http.eof_received()

    def pause_writing(self) -> None:
        self._read_deadline = self._loop.call_later(self._settings.body_timeout_s, self.abort)
        self._http.pause_writing()

    def resume_writing(self) -> None:
        if self._read_deadline is not None:
            self._read_deadline.cancel()
            self._read_deadline = None
        self._http.resume_writing()

    def _await_head(self) -> None:
        self._head_deadline = self._loop.call_later(self._settings.header_timeout_s, self._transport.close)

    def _stop_waiting(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of this connection within the limits."""
        self._stop_waiting()
        body = LimitedBody(receive, scope, self._settings)
        self._most = max(self._most, self._settings.max_header_bytes + body.wire_bytes + AHEAD_BYTES)
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        request = RunningRequest(task, "/proxy/" in scope["path"])
        self._open.requests.add(request)
        self._running += 1
        self._begun += 1

        async def noted(message: Message) -> None:
            request.has_begun = True
            if not body.is_complete and message["type"] == "http.response.start":
                if not task.cancelling():
                    await body.discard()
                if not body.is_complete:
                    message["headers"] = [*message["headers"], (b"connection", b"close")]
            try:
                await send(message)
            except RuntimeError:  # uvloop's: uvicorn tells only the newest request that the peer is gone
                if not self._transport.is_closing():
                    raise

        try:
            if self._surplus is not None:
                raise self._surplus
            check_head(scope, self._settings)
            scope["state"].update(peer=self._peer, cut=self.cut, connection=self)
        except AgentctxError as error:
            await refusal(error)(scope, receive, noted)
        else:
            await self._app(scope, body.receive, noted)
        finally:
            self._open.requests.remove(request)
            self._running -= 1
            self._loop.call_soon(self._rest, self._begun)

    def _rest(self, begun: int) -> None:
        """Note that no other request waited: its task would have begun by now."""
        if begun == self._begun:
            self._is_idle = True

    async def cut(self) -> None:
        """Close after sending what was written, so that the peer sees an incomplete reply."""
        self._transport.close()
        timer = self._loop.call_later(LINGER_S, self.abort)
        await self._is_lost.wait()
        timer.cancel()

    def abort(self) -> None:
        """Close immediately."""
        self._transport.abort()


_current: ContextVar[Connection] = ContextVar("connection")


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request: the application that uvicorn calls."""
    await _current.get().answer(scope, receive, send)


def peer_in(scope: Scope) -> Peer | None:
    """Return the peer that `Connection` put into the request's state; None if the kernel did not tell."""
    peer = scope.get("state", {}).get("peer")
    return peer if isinstance(peer, Peer) else None


def request_peer(request: Request) -> Peer:
    """Return the peer of a request.

    Raises `RequestFailed` without a peer, because an unidentified caller gets no service.
    """
    peer = peer_in(request.scope)
    if peer is None:
        raise RequestFailed(
            "Cannot determine the user of this connection.", hint="Connect over the Unix socket."
        )
    return peer


if sys.platform == "darwin":

    def _credentials(sock: socket.socket) -> Peer:
        _, uid, _, gid, *_ = _XUCRED.unpack(sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED.size))
        return Peer(pid=sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID), uid=uid, gid=gid)

else:

    def _credentials(sock: socket.socket) -> Peer:
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        pid, uid, gid = _UCRED.unpack(credentials)
        return Peer(pid=pid, uid=uid, gid=gid)
