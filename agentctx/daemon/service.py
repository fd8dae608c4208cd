"""The daemon's work, free of HTTP."""

from __future__ import annotations

from agentctx.daemon.backup import Backups
from agentctx.daemon.doctor import Doctor
from agentctx.daemon.entries import Entries
from agentctx.daemon.forgetting import Forgetting
from agentctx.daemon.injections import Injections
from agentctx.daemon.metrics import Metrics
from agentctx.daemon.operations import Operations
from agentctx.daemon.reembed import Reembed
from agentctx.daemon.transfer import Transfer


class DaemonService(Entries, Forgetting, Injections, Operations, Metrics, Doctor, Backups, Transfer, Reembed):
    """Implements `server.service.Service`."""
