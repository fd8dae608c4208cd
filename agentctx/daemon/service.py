"""The daemon's work, free of HTTP."""

from __future__ import annotations

from agentctx.daemon.entries import Entries
from agentctx.daemon.operations import Operations
from agentctx.daemon.questions import Questions


class DaemonService(Entries, Questions, Operations):
    """Implements `server.service.Service`."""
