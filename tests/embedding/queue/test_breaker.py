from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.embedding.queue.breaker import (
    LIMITED,
    MISCONFIGURED,
    OUTAGE,
    SUSPECTED,
    Breaker,
    BreakerState,
)
from agentctx.embedding.queue.retry import Backoff
from tests.embedding.queue.seeded import seeded

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
    one = breaker_after(4)
    assert one.state is BreakerState.SUSPECT
    assert not one.is_degraded(0)
    assert one.until <= 4_000
    one = breaker_after(5)
    assert one.state is BreakerState.OPEN
    assert one.reason == "down"
    assert 3_750 <= one.until <= 5_000
    assert one.is_degraded(0)


def test_a_success_resets_the_count() -> None:
    one = breaker_after(4)
    one.succeeded()
    one.failed(0, "down")
    assert one.state is BreakerState.SUSPECT


def test_a_stop_opens_it_immediately_and_for_longer() -> None:
    one = breaker_after(1, stop=True)
    assert one.state is BreakerState.OPEN
    assert 41_000 <= one.until <= 55_000


def test_silence_opens_it_immediately() -> None:
    one = breaker_after(1, at_once=True)
    assert one.is_open
    assert one.until <= 5_000


@pytest.mark.parametrize("times", [1, 5])
def test_only_the_canary_is_sent_after_a_failure(times: int) -> None:
    assert breaker_after(times).is_probing


def test_a_successful_probe_closes_it() -> None:
    one = breaker_after(5)
    one.succeeded()
    assert (one.state, one.reason, one.until) == (BreakerState.CLOSED, None, 0)


def test_a_failed_probe_opens_it_again_for_longer() -> None:
    one = breaker_after(5)
    lengths = []
    for _ in range(8):
        now = one.until
        one.failed(now, "still down")
        assert one.state is BreakerState.OPEN
        lengths.append(one.until - now)
    assert lengths[0] > 5_000
    assert all(30_000 <= length <= 55_000 for length in lengths[3:])
    assert len(set(lengths)) == len(lengths)


def test_after_a_stop_any_failed_probe_opens_it_again() -> None:
    one = breaker_after(1, stop=True)
    now = one.until
    one.failed(now, "down")
    assert one.state is BreakerState.OPEN
    assert one.until > now


def test_a_requested_pause_holds_calls_without_opening_it() -> None:
    one = breaker()
    one.limited(0, 7_000, "slow down")
    assert (one.state, one.until) == (BreakerState.CLOSED, 7_000)
    assert one.is_degraded(6_999)
    assert not one.is_degraded(7_000)


def test_a_limit_without_a_length_is_kept_for_longer_each_time() -> None:
    one, now, lengths = breaker(), 0, []
    for _ in range(9):
        one.limited(now, now, "429")
        lengths.append(one.until - now)
        now = one.until
    assert lengths == sorted(lengths[:7]) + lengths[7:]
    assert lengths[0] <= 500
    assert max(lengths) <= 55_000
    one.succeeded()
    one.limited(now, now, "429")
    assert one.until - now <= 500


def test_opening_does_not_shorten_a_pause() -> None:
    one = breaker(failures=1)
    one.hold(HOUR)
    one.failed(0, "down")
    assert one.until == HOUR


@given(st.integers(0, 2**32), st.booleans())
def test_an_hour_of_outage_costs_at_most_130_calls(seed: int, stop: bool) -> None:
    one, now, calls = breaker(seed=seed), 0, 0
    while now < HOUR:
        one.failed(now, "down", stop=stop)
        calls += 1
        now = max(now, one.until)
    assert calls <= 130


@pytest.mark.parametrize("pause", [SUSPECTED, LIMITED, OUTAGE, MISCONFIGURED])
@given(openings=st.integers(0, 10**6), seed=st.integers(0, 2**32))
def test_a_provider_that_is_well_again_is_noticed_within_a_minute(
    pause: Backoff, openings: int, seed: int
) -> None:
    assert 0 < pause.delay_ms(openings, seeded(seed)) <= 55_000


def test_a_pause_without_a_fault_has_a_reason_and_ends_on_time() -> None:
    one = breaker()
    one.hold(1_000, "enough for today")
    assert (one.state, one.reason, one.until) == (BreakerState.CLOSED, "enough for today", 1_000)
    assert one.is_degraded(999)
    assert not one.is_degraded(1_000)
