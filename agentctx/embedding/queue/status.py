"""The status of the queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

State: TypeAlias = Literal["ok", "starting", "degraded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """A snapshot. Counts start with the queue; jobs waiting in the table are `storage.jobs.depth()`."""

    state: State
    reason: str | None
    until: int | None
    """Earliest time of the next call to the provider, if calls are paused (milliseconds)."""
    queued: int
    """Jobs waiting in memory."""
    in_flight: int
    """Jobs at the provider, or whose vectors are being stored."""
    embedded: int
    buried: int
    stale: int
    """Vectors dropped because their entry was changed or removed meanwhile."""
    calls: int
    failed_calls: int
    batch_sizes: Mapping[int, int]
    """Number of calls by the number of texts in the call."""


@dataclass(slots=True)
class QueueCounts:
    """The running counts of a queue."""

    embedded: int = 0
    buried: int = 0
    stale: int = 0
    failed_calls: int = 0
    batch_sizes: Counter[int] = field(default_factory=Counter)
