"""The daemon's memory: out of core files and other processes' reach, and given back when it is free."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger("agentctx.daemon")

_PR_SET_DUMPABLE: Final = 4
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_GIVEN_BACK_FROM: Final = 128 * 1024
"""Bytes; glibc begins with it, and raises it up to 32 MiB automatically with the blocks it sees freed."""


def keep_private() -> None:
    """Write no core file, and let no process of the same user but root's read this one's memory.

    Where the system cannot, the daemon serves all the same, and says so.
    """
    try:
        _, most = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, most))
        if sys.platform == "linux" and ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
    except (OSError, ValueError) as error:
        log.warning("memory_not_private", reason=str(error))


def give_back_what_is_freed() -> None:
    """Let glibc return freed memory to the system (`mallopt(3)`); with another allocator nothing is done.

    By itself it takes ever larger blocks from its heaps, one for every few threads, in which what is in use
    holds on to what is free around it: under mixed load 70 MiB and more unused.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _GIVEN_BACK_FROM)
        mallopt(_M_TRIM_THRESHOLD, _GIVEN_BACK_FROM)


def resident_bytes() -> int:
    """Memory in RAM now; where the kernel does not say, the most there ever was."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except FileNotFoundError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")
