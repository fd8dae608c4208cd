from __future__ import annotations

import asyncio

import pytest

from agentctx.service.telemetry.loop_lag import MAX_READINGS, STALLED_READINGS, STALLED_S, LoopLag, watch_loop


class Night:
    """A clock whose alarms are late by the given times, then stop."""

    def __init__(self, *late: float) -> None:
        self.time = 100.0
        self.asked: list[float] = []
        self._late = list(late)

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        if not self._late:
            raise asyncio.CancelledError
        self.asked.append(seconds)
        self.time += seconds + self._late.pop(0)


async def test_it_tells_how_late_each_alarm_was() -> None:
    lags: list[float] = []
    night = Night(0.25, 0.0, 2.0)
    with pytest.raises(asyncio.CancelledError):
        await watch_loop(lags.append, interval_s=0.5, now=night.now, sleep=night.sleep)
    assert lags == [0.25, 0.0, 2.0]
    assert night.asked == [0.5, 0.5, 0.5], "a late alarm does not bring the next one forward"


async def test_an_alarm_that_came_early_was_not_late() -> None:
    lags: list[float] = []
    night = Night(-0.01)
    with pytest.raises(asyncio.CancelledError):
        await watch_loop(lags.append, now=night.now, sleep=night.sleep)
    assert lags == [0.0]


async def test_a_blocked_loop_is_noticed() -> None:
    reported = asyncio.Event()
    lags: list[float] = []

    def lagged(seconds: float) -> None:
        lags.append(seconds)
        reported.set()

    steps = iter([0.0, 7.0, 7.0, 7.0])
    watching = asyncio.create_task(watch_loop(lagged, interval_s=0.0, now=lambda: next(steps, 7.0)))
    await reported.wait()
    watching.cancel()
    assert lags[0] == 7.0


def read(*seconds: float) -> LoopLag:
    lag = LoopLag()
    for each in seconds:
        lag.record(each)
    return lag


def test_the_latest_readings_are_kept() -> None:
    lag = read(9.0, *[0.2] * 3, *[0.01] * (MAX_READINGS - 3))
    assert (lag.readings, lag.worst_s, lag.later_than(0.1)) == (MAX_READINGS, 0.2, 3)
    assert (read().readings, read().worst_s, read().later_than(0)) == (0, 0.0, 0)


def test_a_loop_is_stalled_if_late_repeatedly_but_not_once() -> None:
    late = [STALLED_S] * STALLED_READINGS
    assert read(0.0, *late).is_stalled
    assert not read(*late[1:]).is_stalled
    assert not read(*late, 0.0).is_stalled
    assert not read(3_600.0, 0.0, 0.0).is_stalled
