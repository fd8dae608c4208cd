"""The parts that do the daemon's work, and the service they make together."""

from __future__ import annotations

from agentctx.doctor.examiner import Examiner
from agentctx.service.audit_reader import AuditReader
from agentctx.service.backup import Backups
from agentctx.service.base import Service
from agentctx.service.calls import composed
from agentctx.service.entries import Entries
from agentctx.service.forgetting import Forgetting
from agentctx.service.injections import Injections
from agentctx.service.metrics import Metrics
from agentctx.service.parts import Parts
from agentctx.service.prover import Prover
from agentctx.service.questions import Questions
from agentctx.service.reembed import Reembed
from agentctx.service.status import Status
from agentctx.service.transfer import Transfer
from agentctx.service.trust import Revoking


class DaemonService:
    """Holds the parts. `operations` is what can be asked of them, without any check of grants."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.backups = Backups(parts)
        self.prover = Prover(parts)
        questions = Questions(parts)
        self.operations: Service = composed(
            (
                Entries(parts),
                Forgetting(parts),
                questions,
                Injections(parts, questions),
                Transfer(parts),
                Status(parts),
                Reembed(parts),
                Examiner(parts),
                self.backups,
                AuditReader(parts),
                Revoking(parts),
                Metrics(parts, self.prover),
            )
        )
