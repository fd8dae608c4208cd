"""The status of the queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

State: TypeAlias = Literal["ok", "starting", "degraded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """A snapshot. Counts start with the queue; jobs waiting in the table are `storage.jobs.depth()`."""

    state: State
    reason: str | None
    embedded: int
    buried: int
    stale: int
    """Vectors dropped because their entry was changed or removed meanwhile."""
