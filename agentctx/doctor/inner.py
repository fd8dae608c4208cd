"""The checks that need the database and the model, run by the daemon, or the command when no daemon runs."""

from __future__ import annotations

from dataclasses import dataclass

from agentctx.config.schema import Settings
from agentctx.doctor.backup import backup_check
from agentctx.doctor.check import Check
from agentctx.doctor.database import Opened, database_checks
from agentctx.doctor.provider import Embedding, Probe, provider_checks
from agentctx.doctor.queue import queue_checks
from agentctx.doctor.rag import calibration_check, rag_check
from agentctx.doctor.rerank import rerank_check
from agentctx.doctor.running import Running, running_checks
from agentctx.doctor.scrub import LookAgain
from agentctx.doctor.space import space_checks
from agentctx.doctor.spending import spending_check
from agentctx.times import Clock
from agentctx.wire import CalibrationState


def _no_queue() -> None:
    """Do nothing: no queue waits for new jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """What the inner checks look at."""

    settings: Settings
    opened: Opened
    embedding: Embedding
    clock: Clock
    queue_trouble: str | None = None
    """Why the running queue embeds nothing now."""
    look_again: LookAgain = _no_queue
    calibration: CalibrationState | None = None
    """None without a model."""
    running: Running | None = None
    """None where no daemon runs."""


def inner_checks(inside: Inside) -> list[Check]:
    """All of `catalog.INNER_IDS`."""
    probe = Probe(inside.embedding)
    return [
        *database_checks(inside.opened, inside.look_again, inside.clock),
        *running_checks(inside.running),
        backup_check(inside.opened.path.parent, inside.settings.backup, inside.clock),
        *queue_checks(
            inside.opened,
            inside.settings.embedding.queue,
            inside.clock,
            inside.queue_trouble,
            inside.look_again,
        ),
        *provider_checks(inside.embedding, probe),
        *space_checks(
            inside.opened,
            inside.embedding,
            probe,
            None if inside.running is None else inside.running.in_force,
        ),
        spending_check(inside.embedding),
        rag_check(inside.settings),
        calibration_check(inside.calibration),
        rerank_check(inside.settings.rerank, offline=inside.embedding.offline),
    ]
