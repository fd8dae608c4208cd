"""The daemon's work, free of HTTP."""

from __future__ import annotations

from agentctx.daemon.doctor import Doctor
from agentctx.daemon.entries import Entries
from agentctx.daemon.metrics import Metrics
from agentctx.daemon.operations import Operations
from agentctx.daemon.questions import Questions


class DaemonService(Entries, Questions, Operations, Metrics, Doctor):
    """Implements `server.service.Service`."""
