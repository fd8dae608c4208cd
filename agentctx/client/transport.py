"""The transport protocols that carry a request to the daemon and its reply back, and their errors.

A transport knows nothing of entries and questions: any implementation of one of the two protocols can be
given to a client. The defaults are `unix_transport` and `async_transport`.
"""

from __future__ import annotations

import errno
import grp
import os
import select
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from agentctx.config.paths import SYSTEM_SOCKET, default_socket, start_command
from agentctx.errors import AgentctxError, DaemonUnreachable, DeadlineExceeded, Unavailable

TIMEOUT_S = 30.0
"""How long a transport waits for a reply by default."""
MAX_IDLE = 16
"""Idle connections kept for later requests; those beyond that came from a burst and are closed."""


class HttpReply(NamedTuple):
    """An HTTP reply. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ClosedToUser(DaemonUnreachable):
    """A daemon may be running, but the file permissions keep this user out."""


class NotListening(DaemonUnreachable):
    """The socket is missing or has no listener: nothing was sent, and a daemon may be about to start."""


class BacklogFull(Unavailable):
    """The daemon accepts no further connections at the moment: nothing was sent."""


class ConnectionDropped(DaemonUnreachable):
    """The connection ended before the reply arrived: whether the daemon did the work is unknown."""

    default_hint = "See with `agentctx status` whether the daemon runs, then look before doing it again."


class Transport(Protocol):
    """Sends one request and returns its reply. Safe for concurrent use by any number of threads.

    A connection that was closed while idle is replaced before anything is sent on it.

    Raises:
        NotListening: no process listens on the socket.
        BacklogFull: the daemon accepts no further connections at the moment.
        DaemonUnreachable: connecting to the socket failed.
        ConnectionDropped: the connection ended before the whole reply arrived.
        DeadlineExceeded: no whole reply within `timeout_s`; None means the transport's default.
        InvalidInput: a header contains a line break, which would begin another one.
    """

    def request(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout_s: float | None = None,
    ) -> HttpReply: ...

    def close(self) -> None: ...


class AsyncTransport(Protocol):
    """The asynchronous `Transport`, for any number of tasks on one event loop."""

    async def request(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout_s: float | None = None,
    ) -> HttpReply: ...

    async def close(self) -> None: ...


def connection_dropped(path: Path) -> ConnectionDropped:
    """Return the error for a connection that ended before the reply arrived."""
    return ConnectionDropped(f"The daemon on {path} closed the connection without an answer.")


def client_closed() -> DaemonUnreachable:
    """Return the error for a request after `close`."""
    return DaemonUnreachable("The client is closed.", hint="Create a new one.")


def deadline_exceeded(path: Path, timeout_s: float) -> DeadlineExceeded:
    """Return the error for a reply that did not arrive in time."""
    return DeadlineExceeded(
        f"The daemon on {path} did not answer within {timeout_s:g} s.",
        hint="It may still do it: look before you repeat it. `agentctx status` shows what keeps it busy.",
    )


def refusal(path: Path, error: OSError) -> AgentctxError:
    """Return the error for a socket that cannot be connected to, with a hint on what to do."""
    number = error.errno
    if number == errno.EAGAIN:
        return BacklogFull(
            f"The daemon on {path} is not accepting connections at the moment.", hint="Try again in a second."
        )
    if number in {errno.EACCES, errno.EPERM}:
        return ClosedToUser(
            f"Permission denied: this user may not connect to {path}.",
            hint="Run as the daemon's user, or share the socket with server.socket_mode and socket_group.",
        )
    if number == errno.ENOENT and (group := access_denied_group(path)):
        return ClosedToUser(
            f"Permission denied: you may not enter {SYSTEM_SOCKET.parent}, the folder of the daemon.",
            hint=f"Ask an operator to add you to the group '{group}', log in again, and check with `groups`. "
            "Or start a daemon of your own: `agentctx serve`.",
        )
    if number == errno.ENOENT:
        return _not_listening(path, "the socket does not exist")
    if number == errno.ECONNREFUSED:
        return _nobody_listens(path)
    return _other_refusal(path, error)


def _other_refusal(path: Path, error: OSError) -> DaemonUnreachable:
    if error.errno is None and "too long" in str(error):  # Python checks this itself
        return DaemonUnreachable(
            f"The socket path {path} is too long.",
            hint="Start the daemon with a shorter --socket, and use the same one here.",
        )
    return DaemonUnreachable(f"No daemon answers on {path}: {str(error) or 'the connection failed'}.")


def _nobody_listens(path: Path) -> DaemonUnreachable:
    if not path.is_socket():
        return DaemonUnreachable(f"No daemon answers on {path}: it is not a socket.")
    return _not_listening(path, "the socket is there, but its daemon is gone")


def _not_listening(path: Path, why: str) -> NotListening:
    return NotListening(
        f"No daemon answers on {path}: {why}.",
        hint=f"Start it with `{start_command(path)}`, or give its socket with --socket or AGENTCTX_SOCKET. "
        "`agentctx doctor` shows what is wrong.",
    )


def access_denied_group(path: Path) -> str | None:
    """Return the group allowed to use the machine's daemon if this user is not; None if `path` was named."""
    if "AGENTCTX_SOCKET" in os.environ or path != default_socket():
        return None
    folder = SYSTEM_SOCKET.parent
    try:
        gid = folder.stat().st_gid
    except OSError:
        return None
    if os.access(folder, os.X_OK):
        return None
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def connect(path: Path) -> socket.socket:
    """Return a connected, non-blocking socket.

    It connects at once or fails: waiting for a place in a full backlog would have no deadline.

    Raises:
        AgentctxError: the error that `refusal` returns.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.connect(str(path))
    except OSError as error:
        sock.close()
        raise refusal(path, error) from error
    return sock


def why_away(path: Path) -> str:
    """Return why no daemon listens on a socket; empty if one does."""
    try:
        connect(path).close()
    except AgentctxError as error:
        return error.message
    return ""


class IdleWatch:
    """Tells, without reading, whether an idle connection is still usable for a request.

    It is if nothing can be read from it: anything readable is its end or unsolicited bytes.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def is_quiet(self) -> bool:
        return not self._poll.poll(0)
