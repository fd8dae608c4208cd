"""`python -m tests.agents [NAME…]`: the tests of real agents where no network is.

They run in a network namespace of their own, where the kernel gives one. Elsewhere the agents still have
their vendors at addresses of this machine, and a proxy that refuses everything else.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.agents.real_agents import REAL_AGENTS

_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWNET: Final = 0x40000000
_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1


def main(names: Sequence[str]) -> int:
    """Test these agents, or all; returns the exit code."""
    if unknown := [name for name in names if name not in REAL_AGENTS]:
        sys.stderr.write(f"Unknown agent {unknown[0]}. Use {', '.join(REAL_AGENTS)}.\n")
        return 2
    wanted = list(names or REAL_AGENTS)
    if missing := [name for name in wanted if REAL_AGENTS[name].path() is None]:
        sys.stderr.write(f"Not installed: {', '.join(missing)}. Run `make test-agents`.\n")
        return 1
    if not _left_network():
        sys.stderr.write(
            "The kernel gives no network namespace; the agents are kept offline by their settings.\n"
        )
    chosen = ["-k", " or ".join(f"[{name}]" for name in wanted)] if names else []
    return int(pytest.main([str(Path(__file__).parent), "-rfEs", "--durations=10", *chosen]))


def _left_network() -> bool:
    """Move this process into a namespace in which only loopback is up; whether it could be done."""
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
            return False
        _stay(uid, gid)
    _raise_loopback()
    return True


def _stay(uid: int, gid: int) -> None:
    """Be the same user in the new namespace of users."""
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1", encoding="ascii")


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack_from("h", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, asked), 16)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
