"""Which fault a request gets, and what has come in."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from agentctx.fake_provider.faults import Fault


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that arrived. Keys are not kept, only whether one came."""

    number: int
    """From 1, since the script was set; 0 for the target of a redirect, which is never scripted."""
    provider: str
    """Or `elsewhere`, the target of a redirect."""
    path: str
    has_key: bool
    payload: object
    """The body as JSON, or None."""
    fault: str | None
    """The kind of fault that it got."""


class Script:
    """Faults in order, of which the first that fits a request happens; the last `kept` requests."""

    def __init__(self, faults: Sequence[Fault] = (), *, kept: int = 1_000) -> None:
        self.seen: deque[Seen] = deque(maxlen=kept)
        self.set(faults)

    def set(self, faults: Sequence[Fault]) -> None:
        """Replace the faults; requests are counted from 1 again."""
        self.faults = tuple(faults)
        self._happened = [0] * len(self.faults)
        self._number = 0

    def reset(self) -> None:
        """No faults, and nothing has come in."""
        self.set(())
        self.seen.clear()

    def take(self, provider: str, path: str, payload: object, *, has_key: bool) -> Fault | None:
        """Record a request; the fault that happens to it."""
        self._number += 1
        fault = self._choose(provider, payload)
        kind = fault.kind if fault else None
        self.seen.append(Seen(self._number, provider, path, has_key, payload, kind))
        return fault

    def record_elsewhere(self, path: str, payload: object, *, has_key: bool) -> None:
        """Record what followed a redirect."""
        self.seen.append(Seen(0, "elsewhere", path, has_key, payload, None))

    def _choose(self, provider: str, payload: object) -> Fault | None:
        for at, fault in enumerate(self.faults):
            spent = fault.times is not None and self._happened[at] >= fault.times
            if not spent and fault.fits(self._number, provider, payload):
                self._happened[at] += 1
                return fault
        return None
