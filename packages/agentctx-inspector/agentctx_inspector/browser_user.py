"""Whose browser has connected over 127.0.0.1, as the kernel says."""

from __future__ import annotations

import re
import socket
import struct
from pathlib import Path
from typing import Final

NOBODY: Final = -1
_TABLE: Final = Path("/proc/net/tcp")
_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_HEADER: Final = struct.Struct("=IHHII")
"""Linux `struct nlmsghdr`: length, type, flags, number, port."""
_ASKED: Final = struct.Struct("=BBBBI")
"""The beginning of `struct inet_diag_req_v2`: family, protocol, extensions, padding, states."""
_UID_AT: Final = 80
"""Where the uid is in a reply: after the header, the state and the id of the socket, and three numbers."""
_TIMEOUT_S: Final = 1.0


def browser_of(client_port: int, port: int) -> int | None:
    """Return the uid of the process that has connected from `client_port` to our `port`; -1 if it is gone.

    None where the system does not tell: then a session is safe only as far as its cookie is.
    """
    if not hasattr(socket, "AF_NETLINK"):
        return None
    try:
        return asked(client_port, port)
    except OSError:  # the service's sandbox has no netlink
        return listed(client_port, port)


def asked(client_port: int, port: int) -> int:
    """Ask the kernel for one socket, which takes microseconds. Raises `OSError` without netlink."""
    here = socket.inet_aton("127.0.0.1").ljust(16, b"\0")
    which = (
        struct.pack("!HH16s16sI", client_port, port, here, here, 0) + b"\xff" * 8
    )  # whatever its cookie is
    wanted = _ASKED.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + which
    header = _HEADER.pack(_HEADER.size + len(wanted), _BY_FAMILY, _REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(_TIMEOUT_S)
        kernel.send(header + wanted)
        reply = kernel.recv(4_096)
    _, kind, *_ = _HEADER.unpack_from(reply)
    return int(struct.unpack_from("=I", reply, _UID_AT)[0]) if kind == _BY_FAMILY else NOBODY


def listed(client_port: int, port: int, table: Path = _TABLE) -> int | None:
    """Find the socket in the list of all, which takes milliseconds; None if there is no list."""
    try:
        rows = table.read_text(encoding="ascii")
    except OSError:
        return None
    here = rf" 0100007F:{client_port:04X} 0100007F:{port:04X} \S+ \S+ \S+ \S+ +(\d+)"
    row = re.search(here, rows)
    return int(row[1]) if row else NOBODY
