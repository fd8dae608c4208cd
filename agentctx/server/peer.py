"""The peer's credentials on a Unix socket, as the kernel reports them."""

from __future__ import annotations

import select
import socket
import struct
import sys
from pathlib import Path

from starlette.requests import Request

from agentctx.errors import RequestFailed
from agentctx.service.base import Peer

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


def has_hung_up(sock: socket.socket | None) -> bool:
    """Return whether a peer that has stopped sending has also stopped reading.

    Only Linux reports this, and only for Unix sockets; over loopback TCP, its table of sockets says whether a
    process still has the other end. Elsewhere a peer that stops sending counts as gone.
    """
    if sock is None or sys.platform != "linux" or sock.family not in {socket.AF_UNIX, socket.AF_INET}:
        return True
    poll = select.poll()
    poll.register(sock.fileno(), 0)  # a hang-up is always reported, even without requested events
    if poll.poll(0):
        return True
    return sock.family == socket.AF_INET and not _has_owner(sock.getpeername(), sock.getsockname())


def _has_owner(theirs: tuple[str, int], ours: tuple[str, int]) -> bool:
    """Return whether a socket of this machine, by its address and its peer's, is open in some process."""
    ends = [
        f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"
        for host, port in (theirs, ours)
    ]
    rows = map(str.split, Path("/proc/net/tcp").read_text(encoding="ascii").splitlines())
    return any(row[1:3] == ends and row[9] != "0" for row in rows)


def request_peer(request: Request) -> Peer:
    """Return the peer that `connection.PeerProtocol` put into the request's state.

    Raises `RequestFailed` without a peer, because an unidentified caller gets no service.
    """
    peer = request.scope.get("state", {}).get("peer")
    if not isinstance(peer, Peer):
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
