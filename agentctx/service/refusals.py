"""Upstreams that refuse calls with context: after three, calls to them go without it for a day. No I/O."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from agentctx.times import Clock, wall_clock

REFUSING: Final = frozenset({400, 413, 422})
"""Statuses with which a vendor refuses a body. Such a call goes once more, as the client sent it."""
MAX_REFUSED: Final = 3
REST_MS: Final = 24 * 3_600_000
_MAX_KNOWN: Final = 1_000
"""Models are named by clients, so the least recent are forgotten."""


def refused_with(error: Exception) -> int | None:
    """Return the status with which a vendor refused a body, if that is what an SDK's exception says."""
    for known in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            status = getattr(known, name, None)
            if isinstance(status, int) and status in REFUSING:
                return status
    return None


@dataclass(slots=True)
class Refusal:
    """Calls in a row that an upstream refused for one model. Until `until` (ms), they go without context."""

    upstream: str
    model: str
    status: int
    count: int = 0
    until: int = 0


class Refusals:
    """What each upstream refused, in this process: a restart forgets it."""

    def __init__(self, clock: Clock = wall_clock) -> None:
        self._clock = clock
        self._known: OrderedDict[tuple[str, str], Refusal] = OrderedDict()

    def note_refused(self, upstream: str, model: str, status: int) -> None:
        """Note that a call with context was refused, and taken without it."""
        refusal = self._known.setdefault((upstream, model), Refusal(upstream, model, status))
        self._known.move_to_end((upstream, model))
        refusal.status, refusal.count = status, refusal.count + 1
        if refusal.count >= MAX_REFUSED:
            refusal.until, refusal.count = self._clock() + REST_MS, 0
        while len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)

    def note_taken(self, upstream: str, model: str) -> None:
        """Note that a call with context was taken."""
        if not self.rests(upstream, model):
            self._known.pop((upstream, model), None)

    def rests(self, upstream: str, model: str) -> bool:
        """Return whether calls to the model go without context now."""
        refusal = self._known.get((upstream, model))
        return refusal is not None and refusal.until > self._clock()

    def resting(self) -> list[Refusal]:
        """Return the models whose calls go without context now."""
        now = self._clock()
        return [refusal for refusal in self._known.values() if refusal.until > now]
