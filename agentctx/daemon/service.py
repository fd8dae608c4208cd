"""The daemon's work, free of HTTP."""

from __future__ import annotations

from agentctx.daemon.audited import Audited
from agentctx.daemon.doctor import Doctor
from agentctx.daemon.forgetting import Forgetting
from agentctx.daemon.metrics import Metrics


class DaemonService(Audited, Forgetting, Metrics, Doctor):
    """Implements `server.service.Service`."""
