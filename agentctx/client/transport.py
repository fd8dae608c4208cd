"""What carries a request to the daemon and its reply back, and how that can fail.

A transport knows nothing of entries and questions: anything that keeps one of these two protocols can be
given to a client. `unix_transport` and `async_transport` are the default ones.
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

from agentctx.config.paths import SYSTEM_SOCKET, default_socket
from agentctx.errors import AgentctxError, DaemonUnreachable, DeadlineExceeded, Unavailable

TIMEOUT_S = 30.0
"""How long a transport waits for a reply by default."""
MAX_IDLE = 16
"""Connections kept for later requests; what is over that was a burst."""


class HttpReply(NamedTuple):
    """An HTTP reply. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ClosedToUser(DaemonUnreachable):
    """A daemon may run, but the file permissions keep this user out."""


class NotListening(DaemonUnreachable):
    """No socket, or no listener: nothing was sent, and a daemon may be about to start."""


class BacklogFull(Unavailable):
    """The daemon accepts no further connections at the moment: nothing was sent."""


class ConnectionDropped(DaemonUnreachable):
    """The connection ended before the reply was there: whether the daemon did the work is unknown."""

    default_hint = "See with `agentctx status` whether the daemon runs, then look before doing it again."


class Transport(Protocol):
    """Sends one request and returns its reply. Any number of threads may use it at once.

    A connection that was closed while it was idle is replaced before anything is sent on it.

    Raises:
        NotListening: no process listens on the socket.
        BacklogFull: the daemon accepts no further connections at the moment.
        DaemonUnreachable: the socket cannot be connected to.
        ConnectionDropped: the connection ended without a whole reply.
        DeadlineExceeded: no whole reply within `timeout_s` of the call; None is the transport's own.
        InvalidInput: a line break in a header would begin another one.
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
    """The same, awaited, for any number of tasks of one loop."""

    async def request(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout_s: float | None = None,
    ) -> HttpReply: ...

    async def close(self) -> None: ...


def dropped(path: Path) -> ConnectionDropped:
    """The error for a connection that ended before the reply was there."""
    return ConnectionDropped(f"The daemon on {path} closed the connection without an answer.")


def closed() -> DaemonUnreachable:
    """The error for a request after `close`."""
    return DaemonUnreachable("The client is closed.", hint="Create a new one.")


def too_slow(path: Path, timeout_s: float) -> DeadlineExceeded:
    """The error for a reply that did not come in time."""
    return DeadlineExceeded(
        f"The daemon on {path} did not answer within {timeout_s:g} s.",
        hint="Allow more time (timeout_s), or check with `agentctx status` what keeps it busy.",
    )


def refusal(path: Path, error: OSError) -> AgentctxError:
    """The error for a socket that cannot be connected to, with what to do about it."""
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
    if number == errno.ENOENT and (group := closed_to_all_but(path)):
        return ClosedToUser(
            f"Permission denied: you may not enter {SYSTEM_SOCKET.parent}, the folder of the daemon.",
            hint=f"Ask an operator to add you to the group '{group}', log in again, and check with `groups`. "
            "Or start a daemon of your own: `agentctx serve`.",
        )
    if number == errno.ENOENT:
        return NotListening(f"No daemon answers on {path}: the socket does not exist.")
    if number == errno.ECONNREFUSED:
        return NotListening(f"No daemon answers on {path}: the socket is there, but its daemon is gone.")
    return DaemonUnreachable(f"No daemon answers on {path}: {str(error) or 'the connection failed'}.")


def closed_to_all_but(path: Path) -> str | None:
    """The group that may use the machine's daemon, when this user may not; None if `path` was named."""
    if "AGENTCTX_SOCKET" in os.environ or path != default_socket():
        return None
    folder = SYSTEM_SOCKET.parent
    try:
        gid = folder.stat().st_gid
    except OSError:
        return None
    return None if os.access(folder, os.X_OK) else _group_name(gid)


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def connected(path: Path) -> socket.socket:
    """A connected socket that does not block.

    It connects at once or not at all: waiting for a place in a full backlog would have no deadline.

    Raises:
        AgentctxError: as `transport.refusal` says.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.connect(str(path))
    except OSError as error:
        sock.close()
        raise refusal(path, error) from error
    return sock


class IdleWatch:
    """Tells, without reading, whether an idle connection is still good for a request.

    A quiet one is. Anything to be read from it is its end, or unsolicited bytes.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def is_quiet(self) -> bool:
        return not self._poll.poll(0)
