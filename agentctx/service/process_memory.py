"""Keeps the daemon's memory out of core files and away from other processes, and returns freed memory."""

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
_OWN_MAPPING_BYTES: Final = 1024 * 1024
"""Each larger block gets a mapping of its own, at a page fault per page; a question needs smaller ones."""
_SPARE_BYTES: Final = 4 * 1024 * 1024
"""How much each heap keeps for the next question."""


def keep_private() -> None:
    """Disable core files, and prevent all processes except root's from reading this one's memory.

    If the system does not support this, the daemon logs a warning and runs anyway.
    """
    try:
        _, most = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, most))
        if sys.platform == "linux" and ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
    except (OSError, ValueError) as error:
        log.warning("memory_not_private", reason=str(error))


def return_freed_memory() -> None:
    """Make glibc return freed memory to the system (`mallopt(3)`); do nothing with another allocator.

    By default glibc allocates ever larger blocks from heaps shared by a few threads each, in which blocks in
    use pin the free memory around them: 70 MiB or more unused under mixed load.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _SPARE_BYTES)


def resident_bytes() -> int:
    """Return the resident memory in bytes, or its peak if the kernel does not report the current value."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except FileNotFoundError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")
