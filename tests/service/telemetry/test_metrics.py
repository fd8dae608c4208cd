from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.telemetry.metrics import Counter, Distribution, Histogram, Metric

BOUNDS = (1.0, 2.0, 5.0)
PLAIN = Metric("a", "histogram", "m", buckets=BOUNDS)
BY_STAGE = Metric("b", "histogram", "m", ("stage",), BOUNDS)


def test_a_count_without_labels_is_there_from_the_start() -> None:
    assert Counter(Metric("a_total", "counter", "m")).samples() == {(): 0.0}
    assert Counter(Metric("b_total", "counter", "m", ("x",))).samples() == {}


def test_each_set_of_labels_is_counted_separately() -> None:
    count = Counter(Metric("b_total", "counter", "m", ("x",)))
    for label in "aba":
        count.add((label,))
    assert count.samples() == {("a",): 2.0, ("b",): 1.0}
    assert count.total() == 3


def test_a_value_on_a_bound_belongs_below_it() -> None:
    histogram = Histogram(PLAIN)
    for value in (0.5, 1.0, 1.1, 5.0, 5.1):
        histogram.add(value)
    assert histogram.samples() == {(): Distribution((2, 1, 1, 1), 12.7)}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 10))))
def test_nothing_is_lost(values: list[tuple[str, float]]) -> None:
    histogram = Histogram(BY_STAGE)
    for label, value in values:
        histogram.add(value, (label,))
    for (label,), distribution in histogram.samples().items():
        mine = [value for other, value in values if other == label]
        assert sum(distribution.counts) == len(mine)
        for place, count in enumerate(distribution.counts):
            assert count == sum(bisect_left(BOUNDS, value) == place for value in mine)


def test_samples_are_a_copy() -> None:
    histogram, count = Histogram(PLAIN), Counter(Metric("a_total", "counter", "m"))
    before = histogram.samples(), count.samples()
    histogram.add(1.0)
    count.add()
    assert before == ({(): Distribution((0, 0, 0, 0), 0.0)}, {(): 0.0})
