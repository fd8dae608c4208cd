from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx.telemetry.recent import Recent, nearest_rank
from agentctx.wire import Latency

durations = st.lists(st.floats(0, 100), min_size=1, max_size=50)


def test_nothing_is_said_before_the_first_event() -> None:
    assert Recent().latency() is None


def test_percentiles_in_milliseconds() -> None:
    recent = Recent()
    for number in range(100, 0, -1):
        recent.add(number / 1_000)
    assert recent.latency() == Latency(p50_ms=50.0, p95_ms=95.0)


def test_the_oldest_falls_out() -> None:
    recent = Recent(size=2)
    for seconds in (100.0, 0.001, 0.001):
        recent.add(seconds)
    assert recent.latency() == Latency(p50_ms=1.0, p95_ms=1.0)


@given(durations, st.floats(0.01, 1))
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(
    values: list[float], share: float
) -> None:
    ordered = sorted(values)
    found = nearest_rank(ordered, share)
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values)
