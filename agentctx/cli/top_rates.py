"""What happened a second, from two status replies. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentctx.wire import StatusReply

_SMOOTHED_LOOKS = 10


@dataclass(frozen=True, slots=True)
class Rates:
    """Events a second between two looks; `cpu` and `embed_cpu` are shares of one core."""

    saves: float
    questions: float
    embeddings: float
    """Vectors stored."""
    commits: float
    provider_failures: float
    cpu: float
    embed_cpu: float
    degraded: float | None
    """Share of searches between two samples that used keywords only; None without searches."""


def rates_between(before: StatusReply, now: StatusReply, seconds: float) -> Rates | None:
    """The rates over `seconds`; None when there is nothing to compare: another daemon answers, or no time
    has passed.
    """
    if seconds <= 0 or before.pid != now.pid or before.uptime_seconds > now.uptime_seconds:
        return None
    old, new = before.activity, now.activity
    questions = new.asked - old.asked
    return Rates(
        saves=(new.saved - old.saved) / seconds,
        questions=questions / seconds,
        embeddings=(new.embedded - old.embedded) / seconds,
        commits=(now.database.commits - before.database.commits) / seconds,
        provider_failures=(new.provider_failures - old.provider_failures) / seconds,
        cpu=(now.cpu_seconds - before.cpu_seconds) / seconds,
        embed_cpu=(now.embed_cpu_seconds - before.embed_cpu_seconds) / seconds,
        degraded=(new.degraded - old.degraded) / questions if questions else None,
    )


def recent_mean(values: Sequence[float]) -> float:
    """Over the last looks: embedding is counted once a batch, so single looks jump."""
    recent = values[-_SMOOTHED_LOOKS:]
    return sum(recent) / len(recent) if recent else 0.0


def seconds_left(pending: int, history: Sequence[Rates]) -> float | None:
    """How long the queue needs at the rate of the last looks; None when it stands still."""
    if not pending:
        return 0.0
    rate = recent_mean([rates.embeddings for rates in history])
    return pending / rate if rate > 0 else None
