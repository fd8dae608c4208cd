"""Ports for servers that a test starts in another process, or whose port must be known beforehand."""

from __future__ import annotations

import itertools
import os
import socket

PORTS = range(20_000, 32_000)
"""Below the kernel's ports for outgoing connections, one of which could take it first."""
APART = 97
"""Distance between the first ports of concurrent test processes."""

_numbers = itertools.count(os.getpid() * APART)


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens, a different one at each call."""
    for number in itertools.islice(_numbers, len(PORTS)):
        port = PORTS[number % len(PORTS)]
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
