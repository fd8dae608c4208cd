"""Decide whether the provider may be called. No I/O.

CLOSED     failures in a row, or a STOP  →  OPEN
OPEN       the cooling time is over      →  HALF_OPEN: one probe of one text
HALF_OPEN  the probe fails               →  OPEN, for longer
HALF_OPEN  the probe succeeds            →  CLOSED
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum


class BreakerState(StrEnum):
    """The state of a breaker; CLOSED allows calls."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True)
class Cooling:
    """How long the breaker stays open: doubles from `first_s` to `max_s`, randomised in the upper half.

    It never falls below half: at worst a probe every 30 s, which keeps an hour of outage below 130 calls.
    """

    first_s: float
    max_s: float

    def duration_ms(self, openings: int, rng: random.Random) -> int:
        ceiling_s = min(self.max_s, self.first_s * 2.0 ** min(openings, 64))
        return round(rng.uniform(ceiling_s / 2, ceiling_s) * 1000)


OUTAGE = Cooling(first_s=5.0, max_s=60.0)
MISCONFIGURED = Cooling(first_s=60.0, max_s=300.0)


class Breaker:
    """The breaker of one provider. Times are in milliseconds; `until` is when the next call may be made."""

    def __init__(self, *, failures: int, rng: random.Random) -> None:
        self._failures = failures
        self._rng = rng
        self._in_a_row = 0
        self._openings = 0
        self.state = BreakerState.CLOSED
        self.reason: str | None = None
        """Why the last call failed; None after a successful one."""
        self.until = 0

    @property
    def is_probing(self) -> bool:
        """Whether only one text may be sent, to test if the provider works again."""
        return self.state is not BreakerState.CLOSED

    def is_degraded(self, now: int) -> bool:
        return self.is_probing or now < self.until

    def begin(self) -> None:
        """Begin a call; the caller has waited for `until`."""
        if self.state is BreakerState.OPEN:
            self.state = BreakerState.HALF_OPEN

    def succeeded(self) -> None:
        self._in_a_row = self._openings = self.until = 0
        self.state = BreakerState.CLOSED
        self.reason = None

    def failed(self, now: int, reason: str, *, stop: bool = False) -> None:
        """Count a failed call. `stop` opens the breaker at once, and for longer."""
        self.reason = reason
        self._in_a_row += 1
        if stop or self.is_probing or self._in_a_row >= self._failures:
            self._open(now, MISCONFIGURED if stop else OUTAGE)

    def hold(self, until: int, reason: str | None = None) -> None:
        """Pause the calls, as the provider or one of our own limits demands."""
        self.until = max(self.until, until)
        self.reason = reason or self.reason

    def _open(self, now: int, cooling: Cooling) -> None:
        self.state = BreakerState.OPEN
        self.hold(now + cooling.duration_ms(self._openings, self._rng))
        self._openings += 1
