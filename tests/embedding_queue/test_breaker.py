from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.embedding_queue.breaker import MISCONFIGURED, OUTAGE, Breaker, BreakerState
from tests.embedding_queue.seeded import seeded

HOUR = 3_600_000


def breaker(failures: int = 5, seed: int = 1) -> Breaker:
    return Breaker(failures=failures, rng=seeded(seed))


def breaker_after(times: int, **options: bool) -> Breaker:
    one = breaker()
    for _ in range(times):
        one.failed(0, "down", **options)
    return one


def test_it_starts_closed() -> None:
    one = breaker()
    assert (one.state, one.reason, one.until) == (BreakerState.CLOSED, None, 0)
    assert not one.is_degraded(0)


def test_consecutive_failures_open_it() -> None:
    assert breaker_after(4).state is BreakerState.CLOSED
    one = breaker_after(5)
    assert one.state is BreakerState.OPEN
    assert one.reason == "down"
    assert 2_500 <= one.until <= 5_000
    assert one.is_degraded(0)


def test_a_success_resets_the_count() -> None:
    one = breaker_after(4)
    one.succeeded()
    one.failed(0, "down")
    assert one.state is BreakerState.CLOSED


def test_a_stop_opens_it_immediately_and_for_longer() -> None:
    one = breaker_after(1, stop=True)
    assert one.state is BreakerState.OPEN
    assert 30_000 <= one.until <= 60_000


def test_the_first_call_after_opening_is_a_probe() -> None:
    one = breaker_after(5)
    one.begin()
    assert one.state is BreakerState.HALF_OPEN
    assert one.is_probing


def test_a_successful_probe_closes_it() -> None:
    one = breaker_after(5)
    one.begin()
    one.succeeded()
    assert (one.state, one.reason, one.until) == (BreakerState.CLOSED, None, 0)


def test_a_failed_probe_opens_it_again_for_longer() -> None:
    one = breaker_after(5)
    lengths = []
    for _ in range(8):
        now = one.until
        one.begin()
        one.failed(now, "still down")
        assert one.state is BreakerState.OPEN
        lengths.append(one.until - now)
    assert lengths[0] > 5_000
    assert all(30_000 <= length <= 60_000 for length in lengths[3:])
    assert len(set(lengths)) == len(lengths)


def test_after_a_stop_any_failed_probe_opens_it_again() -> None:
    one = breaker_after(1, stop=True)
    now = one.until
    one.begin()
    one.failed(now, "down")
    assert one.state is BreakerState.OPEN
    assert one.until > now


def test_a_requested_pause_holds_calls_without_opening_it() -> None:
    one = breaker()
    one.failed(0, "slow down")
    one.hold(7_000)
    assert (one.state, one.until) == (BreakerState.CLOSED, 7_000)
    assert one.is_degraded(6_999)
    assert not one.is_degraded(7_000)


def test_opening_does_not_shorten_a_pause() -> None:
    one = breaker(failures=1)
    one.hold(HOUR)
    one.failed(0, "down")
    assert one.until == HOUR


@given(st.integers(0, 2**32), st.booleans())
def test_an_hour_of_outage_costs_at_most_130_calls(seed: int, stop: bool) -> None:
    one, now, calls = breaker(seed=seed), 0, 0
    while now < HOUR:
        one.begin()
        one.failed(now, "down", stop=stop)
        calls += 1
        now = max(now, one.until)
    assert calls <= 130


@pytest.mark.parametrize("cooling", [OUTAGE, MISCONFIGURED])
@given(openings=st.integers(0, 10**6), seed=st.integers(0, 2**32))
def test_it_is_never_open_forever(cooling: type, openings: int, seed: int) -> None:
    assert 0 < OUTAGE.duration_ms(openings, seeded(seed)) <= 60_000
    assert 0 < MISCONFIGURED.duration_ms(openings, seeded(seed)) <= 300_000


def test_a_pause_without_a_fault_has_a_reason_and_ends_on_time() -> None:
    one = breaker()
    one.hold(1_000, "enough for today")
    assert (one.state, one.reason, one.until) == (BreakerState.CLOSED, "enough for today", 1_000)
    assert one.is_degraded(999)
    assert not one.is_degraded(1_000)
