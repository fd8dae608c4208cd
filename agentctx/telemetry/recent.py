"""How long the latest few hundred events took, for people who look at `agentctx status` and `top`."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from agentctx.wire import Latency

REMEMBERED = 512


class Recent:
    """A ring of durations in seconds; the oldest falls out."""

    __slots__ = ("_seconds",)

    def __init__(self, size: int = REMEMBERED) -> None:
        self._seconds: deque[float] = deque(maxlen=size)

    def add(self, seconds: float) -> None:
        self._seconds.append(seconds)

    def latency(self) -> Latency | None:
        """None before the first event."""
        if not self._seconds:
            return None
        ordered = sorted(self._seconds)
        return Latency(p50_ms=_milliseconds(ordered, 0.50), p95_ms=_milliseconds(ordered, 0.95))


def nearest_rank(ordered: Sequence[float], share: float) -> float:
    """The least value that at least `share` of the sorted values do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _milliseconds(ordered: Sequence[float], share: float) -> float:
    return round(nearest_rank(ordered, share) * 1_000, 3)
