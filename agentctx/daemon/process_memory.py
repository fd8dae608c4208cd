"""Keeps keys and texts that are in the daemon's memory out of core files and other processes' reach."""

from __future__ import annotations

import ctypes
import resource
import sys
from typing import Final

import structlog

log = structlog.get_logger("agentctx.daemon")

_PR_SET_DUMPABLE: Final = 4


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
