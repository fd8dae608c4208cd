"""What the queue says of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

State: TypeAlias = Literal["ok", "starting", "degraded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """A snapshot. Counts are since the queue was made; what waits in the table is `storage.jobs.depth()`."""

    state: State
    reason: str | None
    until: int | None
    """When the provider is called again at the earliest, if it is being left alone (milliseconds)."""
    queued: int
    """Jobs in memory that wait."""
    in_flight: int
    """Jobs at the provider, or whose vectors are being stored."""
    embedded: int
    buried: int
    stale: int
    """Vectors dropped because their entry changed or went away meanwhile."""
    calls: int
    failed_calls: int
    batch_sizes: Mapping[int, int]
    """How many calls were made with so many texts."""


@dataclass(slots=True)
class Tally:
    """The running counts of a queue."""

    embedded: int = 0
    buried: int = 0
    stale: int = 0
    failed_calls: int = 0
    batch_sizes: Counter[int] = field(default_factory=Counter)
