"""Decides which faults are logged, so that an outage does not fill the log with a line for each request."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

INTERVAL_S = 60.0


@dataclass(slots=True)
class _Logged:
    at: float
    withheld: int = 0


class FaultLog:
    """Lets the first fault of a kind through at once, and then one each minute.

    `kind` must come from a small set, like the codes of errors, because each is remembered.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged: dict[str, _Logged] = {}

    def due(self, kind: str) -> int | None:
        """Return how many faults were withheld since the last line, or None to withhold this one too."""
        now, last = self._clock(), self._logged.get(kind)
        if last is not None and now - last.at < INTERVAL_S:
            last.withheld += 1
            return None
        self._logged[kind] = _Logged(now)
        return 0 if last is None else last.withheld
