"""The daemon's work, free of HTTP."""

from __future__ import annotations

from agentctx.doctor.examiner import Doctor
from agentctx.service.audited import Audited
from agentctx.service.forgetting import Forgetting
from agentctx.service.metrics import Metrics


class DaemonService(Audited, Forgetting, Metrics, Doctor):
    """Implements `service.base.Service`."""
