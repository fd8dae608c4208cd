from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.embedding.queue.timing import LoopTimer, sleep
from tests.embedding.queue.manual_timer import ManualTimer

DAY = 86_400_000


class Clocks:
    def __init__(self) -> None:
        self.wall = 1_700_000_000_000
        self.steady_s = 50.0

    def timer(self) -> LoopTimer:
        return LoopTimer(lambda: self.wall, lambda: self.steady_s)

    def pass_time(self, ms: int) -> None:
        self.wall += ms
        self.steady_s += ms / 1000


def test_it_starts_at_the_wall_clock_and_keeps_up_with_it() -> None:
    clocks = Clocks()
    timer = clocks.timer()
    assert timer.now() == clocks.wall
    clocks.pass_time(1_500)
    assert timer.now() == clocks.wall


def test_a_leap_forward_is_followed() -> None:
    clocks = Clocks()
    timer = clocks.timer()
    clocks.wall += DAY
    assert timer.now() == clocks.wall


def test_a_leap_back_does_not_stop_time() -> None:
    clocks = Clocks()
    timer = clocks.timer()
    before = timer.now()
    clocks.wall -= DAY
    assert timer.now() == before
    clocks.pass_time(5_000)
    assert timer.now() == before + 5_000


@given(st.lists(st.tuples(st.integers(-2 * DAY, 2 * DAY), st.integers(0, DAY)), max_size=30))
def test_time_never_goes_back_and_never_lags(steps: list[tuple[int, int]]) -> None:
    clocks = Clocks()
    timer = clocks.timer()
    last = timer.now()
    for leap, passed in steps:
        clocks.wall += leap
        clocks.pass_time(passed)
        now = timer.now()
        assert now >= last + passed - 1  # the steady clock's float is truncated to milliseconds
        assert now >= clocks.wall - 1
        last = now


async def test_overdue_alarms_fire_on_the_loop() -> None:
    timer = LoopTimer(lambda: 0)
    rung = asyncio.Event()
    timer.call_at(timer.now() - 5_000, rung.set)
    async with asyncio.timeout(30):
        await rung.wait()


async def test_a_cancelled_alarm_does_not_fire() -> None:
    timer = LoopTimer(lambda: 0)
    first, second = asyncio.Event(), asyncio.Event()
    timer.call_at(timer.now() + 1, first.set).cancel()
    timer.call_at(timer.now() + 2, second.set)
    async with asyncio.timeout(30):
        await second.wait()
    assert not first.is_set()


async def test_a_sleep_lasts_as_long_as_the_timer_says() -> None:
    timer = ManualTimer()
    asleep = asyncio.ensure_future(sleep(timer, 1_000))
    await timer.advance(999)
    assert not asleep.done()
    await timer.advance(1)
    assert asleep.done()


async def test_an_event_ends_a_sleep_early_but_an_alarm_does_not_set_the_event() -> None:
    timer, stop = ManualTimer(), asyncio.Event()
    await timer.run(sleep(timer, 1_000, until=stop))
    assert not stop.is_set()
    asleep = asyncio.ensure_future(sleep(timer, 1_000, until=stop))
    await timer.settle()
    stop.set()
    await timer.settle()
    assert asleep.done()


async def test_a_cancelled_sleep_leaves_no_alarm() -> None:
    timer = ManualTimer()
    asleep = asyncio.ensure_future(sleep(timer, 1_000))
    await timer.settle()
    asleep.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asleep
    assert timer.alarms == 0
