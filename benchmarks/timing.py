"""Time calls in turns, so that a slow phase of the machine affects all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import TypeAlias

import numpy as np

Action: TypeAlias = Callable[[], Awaitable[object]]


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value below which `percent` of the values are, interpolated."""
    return float(np.percentile(values, percent))


def median(values: Sequence[float]) -> float:
    return percentile(values, 50)


async def timed_ms(action: Action) -> float:
    """Return the duration of the action in milliseconds."""
    started = perf_counter()
    await action()
    return (perf_counter() - started) * 1_000


async def _nothing() -> None:
    """Leave nothing to settle."""


async def interleaved_ms(
    actions: Sequence[Action], *, rounds: int, warm_up: int = 20, settle: Action = _nothing
) -> list[list[float]]:
    """Milliseconds of each action in each round, a list an action.

    Every round begins with another action: none always follows the same one. The rounds of the warm-up are
    run first and not kept. `settle` runs after each action, untimed.
    """
    times: list[list[float]] = [[] for _ in actions]
    for number in range(warm_up + rounds):
        for turn in range(len(actions)):
            which = (number + turn) % len(actions)
            took = await timed_ms(actions[which])
            await settle()
            if number >= warm_up:
                times[which].append(took)
    return times
