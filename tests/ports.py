"""Ports for servers that a test starts in another process, or that must know their port beforehand."""

from __future__ import annotations

import itertools
import os
import socket

PORTS = range(20_000, 32_000)
"""Below the ports that the kernel gives to outgoing connections: one of those could take it first."""
APART = 97
"""Processes that run tests at the same time begin this far apart."""

_numbers = itertools.count(os.getpid() * APART)


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on, different at each call."""
    for number in itertools.islice(_numbers, len(PORTS)):
        port = PORTS[number % len(PORTS)]
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
