"""Decide whether the provider may be called. No I/O.

CLOSED    the provider is at fault            →  SUSPECT: only the canary is sent, soon and again
SUSPECT   it fails several times in a row     →  OPEN: answers do without vectors
any       it fails in silence, or with a STOP →  OPEN
OPEN      the canary fails                    →  OPEN, for longer
any       the canary or a batch succeeds      →  CLOSED
"""

from __future__ import annotations

import random
from enum import StrEnum

from agentctx.embedding.queue.retry import Backoff


class BreakerState(StrEnum):
    """The state of a breaker; CLOSED allows calls."""

    CLOSED = "closed"
    SUSPECT = "suspect"
    OPEN = "open"


LONGEST_S = 55.0
"""Keeps an hour of outage below 130 calls, and notices within a minute that the provider is well again."""
LEAST = 0.75
SUSPECTED = Backoff(0.5, LONGEST_S, LEAST)
LIMITED = Backoff(0.5, LONGEST_S, LEAST)
OUTAGE = Backoff(5.0, LONGEST_S, LEAST)
MISCONFIGURED = Backoff(LONGEST_S, LONGEST_S, LEAST)


class Breaker:
    """The breaker of one provider. Times are in milliseconds."""

    def __init__(self, *, failures: int, rng: random.Random) -> None:
        self._failures = failures
        self._rng = rng
        self._in_a_row = self._openings = self._limits = 0
        self._paused_until = self._held_until = 0
        self.state = BreakerState.CLOSED
        self.reason: str | None = None
        """Why the last call failed; None after a successful one."""

    @property
    def until(self) -> int:
        """When the next call may be made."""
        return max(self._paused_until, self._held_until)

    @property
    def is_open(self) -> bool:
        return self.state is BreakerState.OPEN

    @property
    def is_probing(self) -> bool:
        """Whether only the canary may be sent, to test if the provider works again."""
        return self.state is not BreakerState.CLOSED

    def is_degraded(self, now: int) -> bool:
        return self.is_open or now < self._held_until

    def succeeded(self) -> None:
        self._in_a_row = self._openings = self._limits = 0
        self._paused_until = self._held_until = 0
        self.state = BreakerState.CLOSED
        self.reason = None

    def failed(self, now: int, reason: str, *, stop: bool = False, at_once: bool = False) -> None:
        """Count a fault of the provider. `stop` opens the breaker at once and for longer."""
        self.reason = reason
        self._in_a_row += 1
        if not self.is_open:
            self.state = BreakerState.SUSPECT
            self._paused_until = now + SUSPECTED.delay_ms(self._in_a_row - 1, self._rng)
        if stop or at_once or self.is_open or self._in_a_row >= self._failures:
            pause = MISCONFIGURED if stop else OUTAGE
            self.state = BreakerState.OPEN
            self._paused_until = now + pause.delay_ms(self._openings, self._rng)
            self._openings += 1

    def hold(self, until: int, reason: str | None = None) -> None:
        """Pause the calls, as the provider or one of our own limits demands."""
        self._held_until = max(self._held_until, until)
        self.reason = reason or self.reason

    def limited(self, now: int, until: int, reason: str) -> None:
        """Pause the calls at a rate limit, at least until `until` and for longer each time in a row."""
        self.hold(max(until, now + LIMITED.delay_ms(self._limits, self._rng)), reason)
        self._limits += 1
